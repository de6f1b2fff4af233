//! Runs every example. Each one asserts that its model learns.

#[path = "../examples/iterator_data.rs"]
mod iterator_data;
#[path = "../examples/own_recorder.rs"]
mod own_recorder;
#[path = "../examples/perceptron_local.rs"]
mod perceptron_local;
#[path = "../examples/perceptron_mesh.rs"]
mod perceptron_mesh;
#[path = "../examples/perceptron_servers.rs"]
mod perceptron_servers;
#[path = "../examples/server_optimizer.rs"]
mod server_optimizer;
#[path = "../examples/sparse_loss.rs"]
mod sparse_loss;
#[path = "../examples/sparse_model.rs"]
mod sparse_model;

#[test]
fn data_from_an_iterator_trains() {
    iterator_data::main().unwrap();
}

#[test]
fn a_recorder_of_ones_own_receives_steps_and_tests() {
    own_recorder::main().unwrap();
}

#[test]
fn a_perceptron_trains_in_this_process() {
    perceptron_local::main().unwrap();
}

#[test]
fn a_perceptron_trains_by_all_reduce() {
    perceptron_mesh::main().unwrap();
}

#[test]
fn a_perceptron_trains_over_a_server() {
    perceptron_servers::main().unwrap();
}

#[test]
fn an_optimizer_of_ones_own_runs_on_servers() {
    server_optimizer::main().unwrap();
}

#[test]
fn a_sparse_model_of_ones_own_trains_over_a_server() {
    sparse_model::main().unwrap();
}

#[test]
fn a_sparse_loss_of_ones_own_trains_over_a_server() {
    sparse_loss::main().unwrap();
}

#[test]
fn the_perceptron_programs_are_short_and_have_the_same_model() {
    let programs = [
        include_str!("../examples/perceptron_local.rs"),
        include_str!("../examples/perceptron_mesh.rs"),
        include_str!("../examples/perceptron_servers.rs"),
    ];
    let model = |program: &'static str| {
        let (from, to) = (program.find("#[derive").unwrap(), program.find("pub(crate) fn main"));
        &program[from..to.unwrap()]
    };
    for program in programs {
        let lines = program.lines().count();
        assert!(lines <= 60, "{lines} lines");
        assert_eq!(model(program), model(programs[0]));
    }
}

#[test]
fn every_example_has_a_test() {
    let here = include_str!("examples.rs");
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            assert!(here.contains(&format!("{name}::main()")), "{name} is not run");
        }
    }
}

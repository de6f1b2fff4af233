"""Compares the all-reduce of mode `mirrored` with Open MPI's over TCP, alternating within one run.

    pip install numpy mpi4py   # and Open MPI, for example apt-get install openmpi-bin
    cargo build --release --features bench
    python bench/allreduce.py [--paceline target/release/paceline] [--turns 3] [--workers 2]

Both move the gradients of softmax regression (31.4 kB) and of AlexNet (244 MB) between processes
on this machine, over loopback. Paceline's step also applies the mean (plain SGD); MPI's is the
bare sum. The figure is the best median of all turns, because other work on the machine only slows
a turn down.
"""
import argparse
import os
import subprocess
import sys
import time

SIZES = {"31.4 kB": 7_850, "244 MB": 61_100_840}


def reduce_with_mpi(floats, seconds):
    """Runs as one rank under mpirun. Rank 0 prints the median and the best time in ms."""
    import numpy as np
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    gradient = np.ones(floats, np.float32)
    times, begun, keep_going = [], time.perf_counter(), True
    while keep_going:
        gradient.fill(1.0)
        world.Barrier()
        start = time.perf_counter()
        world.Allreduce(MPI.IN_PLACE, gradient, MPI.SUM)
        times.append((time.perf_counter() - start) * 1e3)
        keep_going = world.bcast(time.perf_counter() - begun < seconds or len(times) < 5, root=0)
    assert gradient[floats // 2] == world.size
    times = sorted(times[2:])
    if world.rank == 0:
        print(times[len(times) // 2], times[0])


def mpi(floats, workers):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    command = ["mpirun", "--oversubscribe", "--mca", "btl", "tcp,self"]
    command += ["--mca", "btl_tcp_if_include", "lo", "--mca", "pml", "ob1", "-n", str(workers)]
    command += [sys.executable, os.path.abspath(__file__), "--as-rank", str(floats)]
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [float(number) for number in output.stdout.split()]


def paceline(program, floats, workers):
    """Starts the workers as `paceline bench allreduce` does."""
    seconds = "4" if floats > 100_000 else "1"
    command = [program, "bench", "peer", "mesh-worker", "--address", ""]
    command += ["--floats", str(floats), "--seconds", seconds]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    children = [subprocess.Popen(command, **pipes) for _ in range(workers)]
    addresses = ",".join(child.stdout.readline().strip() for child in children)
    for slot, child in enumerate(children):
        child.stdin.write(f"{slot} {addresses}\n")
        child.stdin.flush()
    times = children[0].stdout.readline().split()
    assert all(child.wait() == 0 for child in children)
    return [float(number) for number in times]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--paceline", default="target/release/paceline")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--as-rank", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.as_rank:
        return reduce_with_mpi(args.as_rank, 4 if args.as_rank > 100_000 else 1)
    print("size      median (best) of Open MPI, ms    of Paceline, ms    Paceline's bytes/s")
    for name, floats in SIZES.items():
        both = [(mpi(floats, args.workers), paceline(args.paceline, floats, args.workers))
                for _ in range(args.turns)]
        theirs = [min(turn[0][i] for turn in both) for i in range(2)]
        ours = [min(turn[1][i] for turn in both) for i in range(2)]
        print(f"{name:8}  {theirs[0]:9.3f} ({theirs[1]:.3f})  {ours[0]:9.3f} ({ours[1]:.3f})"
              f"  {theirs[0] / ours[0]:5.2f} times Open MPI's")


if __name__ == "__main__":
    main()

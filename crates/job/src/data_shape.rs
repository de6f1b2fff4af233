//! The shape of a plan's data.

use paceline_engine::TrainingData;

/// The shape of the data, which determines the size of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataShape {
    /// Channels, rows and columns of an example.
    pub planes: [usize; 3],
    /// Number of classes.
    pub classes: usize,
    /// Number of fields of sparse rows; 0 if they are not stored.
    pub fields: usize,
    /// How many of the last fields hold a single number each.
    pub number_fields: usize,
}

impl DataShape {
    /// The shape of examples without fields.
    pub fn new(planes: [usize; 3], classes: usize) -> Self {
        Self { planes, classes, fields: 0, number_fields: 0 }
    }

    /// Number of values of an example.
    pub fn inputs(&self) -> usize {
        self.planes.iter().product()
    }

    /// The shape of sparse rows of two classes.
    pub fn of_rows(features: usize, fields: usize) -> Self {
        Self { planes: [1, 1, features], classes: 2, fields, number_fields: 0 }
    }
}

/// The shape of loaded data.
pub fn shape_of(data: &TrainingData) -> DataShape {
    match data {
        TrainingData::Images(set) => {
            DataShape::new([1, set.train.rows(), set.train.cols()], set.train.classes())
        }
        TrainingData::Examples(set) => DataShape::new(set.train.shape(), set.train.classes()),
        TrainingData::Rows(set) => {
            let shape = DataShape::of_rows(set.train.features(), set.train.fields());
            let (classes, number_fields) = (set.train.classes(), set.train.number_fields());
            DataShape { classes, number_fields, ..shape }
        }
    }
}

//! The cache: finding data sets in it and fetching them into it.

mod fetch;
mod mirror;
mod places;

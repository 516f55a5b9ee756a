//! Whole packages on a disk, through the public functions.

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod damage;

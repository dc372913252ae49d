//! What hosts are called.

use rustc_hash::FxHashMap;

/// The names of hosts by their numbers, each different.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    names: Vec<String>,
    numbers: FxHashMap<String, u32>,
}

impl Names {
    /// The number of a name; a new name gets the next number.
    pub fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    /// The number of a name that is there.
    pub fn find(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// By number.
    pub fn all(&self) -> &[String] {
        &self.names
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The hosts that these names are if they are numbers themselves: all of them whole numbers below `hosts`, as `5` (not `05`).
    pub fn as_numbers(&self, hosts: u32) -> Option<Vec<u32>> {
        let number = |name: &String| {
            let number = name.parse::<u32>().ok()?;
            (number < hosts && number.to_string() == *name).then_some(number)
        };
        self.names.iter().map(number).collect()
    }
}

impl<S: AsRef<str>> FromIterator<S> for Names {
    /// Repeated names count once.
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> Self {
        let mut all = Self::default();
        for name in names {
            all.number(name.as_ref());
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_get_numbers_in_their_order() {
        let mut names: Names = ["paris", "rome", "paris"].into_iter().collect();
        assert_eq!((names.len(), names.number("oslo"), names.number("rome")), (2, 2, 1));
        assert_eq!((names.find("oslo"), names.find("bonn")), (Some(2), None));
        assert_eq!(names.all(), ["paris", "rome", "oslo"]);
    }

    #[test]
    fn only_plain_numbers_below_the_bound_are_numbers() {
        let numbers = |names: &[&str], hosts| names.iter().collect::<Names>().as_numbers(hosts);
        assert_eq!(numbers(&["2", "0", "1"], 3), Some(vec![2, 0, 1]));
        assert_eq!(numbers(&["1", "2", "3"], 3), None, "counted from 1");
        assert_eq!(numbers(&["0", "01"], 3), None);
        assert_eq!(numbers(&["0", "-1"], 3), None);
    }
}

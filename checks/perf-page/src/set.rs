//! The measurements of a program on a processor, as a file of tab-separated lines:
//!
//! ```text
//! processor  <its name>
//! known      <the name of its architecture, if the goals were set for it>
//! commit     <the commit that was measured, and its date>
//! about      <the name of a crate, a tool or a property of the machine>  <its version or value>
//! value      <case>  <record>  <idle>  <ended>  <measured>  <unit>  [<at most>]  [<spread>]
//! ```

use std::fmt;

/// The numbers of threads that use a window, a node or a limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Crowd {
    /// Threads that run the operation at the same time. If the operation is a read: threads that
    /// are alive and have recorded in the current bucket.
    pub record: usize,
    /// Threads that are alive and have recorded only in a bucket that the window has left.
    pub idle: usize,
    /// Threads that recorded in such a bucket while all of them were alive, and have ended.
    pub ended: usize,
}

impl Crowd {
    /// One thread records, and 256 threads idle.
    pub const IDLE: Self = Self { record: 1, idle: 256, ended: 0 };
    /// One thread records, and 1,024 threads have ended.
    pub const ENDED: Self = Self { record: 1, idle: 0, ended: 1_024 };

    /// Creates a crowd in which all threads record.
    #[must_use]
    pub const fn of(record: usize) -> Self {
        Self { record, idle: 0, ended: 0 }
    }
}

/// A measured value, with its goal if there is one.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// What was measured.
    pub case: String,
    /// The threads of the case.
    pub crowd: Crowd,
    /// The value.
    pub measured: f64,
    /// The unit. A unit that begins with × is a ratio to another case of the same run.
    pub unit: String,
    /// The goal: the highest value.
    pub at_most: Option<f64>,
    /// The larger distance of a quartile from the median, in percent of the median.
    pub spread: Option<f64>,
}

impl Value {
    /// Returns whether the value is above its goal.
    #[must_use]
    pub fn is_missed(&self) -> bool {
        self.at_most.is_some_and(|at_most| self.measured > at_most)
    }

    fn parse(fields: &[&str]) -> Option<Self> {
        let [case, record, idle, ended, measured, unit, optional @ ..] = fields else {
            return None;
        };
        let number = |index| match optional.get(index) {
            None | Some(&"") => Some(None),
            Some(field) => field.parse().ok().map(Some),
        };
        let threads = |field: &str| field.parse().ok();
        Some(Self {
            case: (*case).to_owned(),
            crowd: Crowd { record: threads(record)?, idle: threads(idle)?, ended: threads(ended)? },
            measured: measured.parse().ok()?,
            unit: (*unit).to_owned(),
            at_most: number(0)?,
            spread: number(1)?,
        })
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { case, crowd: Crowd { record, idle, ended }, measured, unit, .. } = self;
        let optional = |number: Option<f64>| number.map_or(String::new(), |it| it.to_string());
        let (at_most, spread) = (optional(self.at_most), optional(self.spread));
        let line =
            format!("{case}\t{record}\t{idle}\t{ended}\t{measured}\t{unit}\t{at_most}\t{spread}");
        f.write_str(line.trim_end_matches('\t'))
    }
}

/// The measurements of a program on a processor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Set {
    /// The name of the processor.
    pub processor: String,
    /// The name of its architecture; empty if no goal was set for it.
    pub known: String,
    /// The commit that was measured, and its date.
    pub commit: String,
    /// The versions of the crates and tools, and the properties of the machine.
    pub about: Vec<(String, String)>,
    /// The measured values.
    pub values: Vec<Value>,
}

impl Set {
    /// Returns the number of processors of the machine, if the file has it.
    #[must_use]
    pub fn cores(&self) -> Option<usize> {
        self.about.iter().find(|(name, _)| name == "cores")?.1.parse().ok()
    }

    /// Parses the lines of a file.
    ///
    /// # Errors
    ///
    /// Returns an error if a line has another form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut set = Self::default();
        for line in text.lines() {
            match line.split('\t').collect::<Vec<_>>()[..] {
                ["processor", value] => value.clone_into(&mut set.processor),
                ["known", value] => value.clone_into(&mut set.known),
                ["commit", value] => value.clone_into(&mut set.commit),
                ["about", name, value] => set.about.push((name.to_owned(), value.to_owned())),
                ["value", ref fields @ ..] => {
                    let value = Value::parse(fields).ok_or(format!("not a value: {line}"))?;
                    set.values.push(value);
                }
                _ => return Err(format!("not a line of a set: {line}")),
            }
        }
        Ok(set)
    }

    /// Returns a value of a case that all threads run at the same time.
    pub(crate) fn value(&self, case: &str, threads: usize, unit: &str) -> Option<f64> {
        let is_it =
            |it: &&Value| it.case == case && it.crowd == Crowd::of(threads) && it.unit == unit;
        self.values.iter().find(is_it).map(|it| it.measured)
    }
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { processor, known, commit, about, values } = self;
        writeln!(f, "processor\t{processor}\nknown\t{known}\ncommit\t{commit}")?;
        about.iter().try_for_each(|(name, value)| writeln!(f, "about\t{name}\t{value}"))?;
        values.iter().try_for_each(|value| writeln!(f, "value\t{value}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsed_lines_are_the_set_that_was_written() {
        let value = Value {
            case: "record".to_owned(),
            crowd: Crowd::IDLE,
            measured: 1.25,
            unit: "ns".to_owned(),
            at_most: None,
            spread: Some(3.0),
        };
        let goal = Value { at_most: Some(1.0), spread: None, ..value.clone() };
        let set = Set {
            processor: "one".to_owned(),
            known: "Zen 5".to_owned(),
            commit: "abc".to_owned(),
            about: vec![("cores".to_owned(), "2".to_owned())],
            values: vec![value, goal],
        };
        assert_eq!(Set::parse(&set.to_string()), Ok(set));
    }

    #[test]
    fn line_of_another_form_is_refused() {
        assert!(Set::parse("value\trecord\t1\t0\t0\tfast\tns").is_err());
        assert!(Set::parse("goal\trecord").is_err());
    }
}

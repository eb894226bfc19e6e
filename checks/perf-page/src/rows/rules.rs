//! The rows of rules.

use super::{Row, row};

macro_rules! threads {
    (1) => {
        "1 thread"
    };
    (2) => {
        "2 threads"
    };
}

/// Creates a row of a case with a number of rules: the threads, the rules, what the case is called
/// and its name in the file, and both of the other side.
macro_rules! of {
    (
        $threads:tt,
        $rules:literal,
        [$what:literal, $ours:literal],
        [$with:literal, $other:literal]
    ) => {
        row(
            "rules",
            $threads,
            [concat!($what, ", ", $rules, ", ", threads!($threads)), concat!($ours, ", ", $rules)],
            [$with, concat!($other, ", ", $rules)],
        )
    };
}

/// A request that is found by the name of its resource.
macro_rules! request {
    ($threads:tt, $rules:literal) => {
        of!(
            $threads,
            $rules,
            ["a request", "rules: a request"],
            ["`sentinel-core`", "`sentinel-core`: a request"]
        )
    };
}

/// A request of a resource that the caller has.
macro_rules! held {
    ($threads:tt, $rules:literal) => {
        of!(
            $threads,
            $rules,
            [
                "a request of a resource at hand",
                "rules: a request of a resource that the caller has"
            ],
            ["the same bucket by hand", "by hand: a request of a resource that the caller has"]
        )
    };
}

macro_rules! decision {
    ($threads:tt, $rules:literal) => {
        of!(
            $threads,
            $rules,
            ["a decision", "rules: a decision"],
            ["the same bucket by hand", "by hand: a decision"]
        )
    };
}

/// A decision beside one by a bucket that can be replaced, too.
macro_rules! replaceable {
    ($threads:tt, $rules:literal) => {
        of!(
            $threads,
            $rules,
            ["a decision", "rules: a decision"],
            ["the same by hand, in an `ArcSwap` each", "by hand, replaceable: a decision"]
        )
    };
}

/// A decision beside one by the least that a limiter takes which can be replaced.
macro_rules! least {
    ($threads:tt, $rules:literal) => {
        of!(
            $threads,
            $rules,
            ["a decision", "rules: a decision"],
            [
                "the least that a limiter reads if it can be replaced",
                "by hand, the least that can be replaced: a decision"
            ]
        )
    };
}

const CHANGE: &str = "`load_rules` of `sentinel-core`";

pub(crate) const RULES: &[Row] = &[
    request!(1, "1 rule"),
    request!(2, "1 rule"),
    request!(1, "10 rules"),
    request!(2, "10 rules"),
    request!(1, "10,000 rules"),
    request!(2, "10,000 rules"),
    row(
        "rules",
        1,
        ["change 10 rules", "`Rules::apply` changes each rule, 10 rules"],
        [CHANGE, "`load_rules` of `sentinel-core` changes each rule, 10 rules"],
    ),
    row(
        "rules",
        1,
        ["change 10,000 rules", "`Rules::apply` changes each rule, 10,000 rules"],
        [CHANGE, "`load_rules` of `sentinel-core` changes each rule, 10,000 rules"],
    ),
    held!(1, "1 rule"),
    decision!(1, "1 rule"),
    held!(2, "1 rule"),
    decision!(2, "1 rule"),
    held!(1, "10 rules"),
    decision!(1, "10 rules"),
    held!(2, "10 rules"),
    decision!(2, "10 rules"),
    held!(1, "10,000 rules"),
    decision!(1, "10,000 rules"),
    replaceable!(1, "10,000 rules"),
    least!(1, "10,000 rules"),
    held!(2, "10,000 rules"),
    decision!(2, "10,000 rules"),
    replaceable!(2, "10,000 rules"),
    least!(2, "10,000 rules"),
];

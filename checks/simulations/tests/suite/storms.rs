//! A storm of retries and a herd, with their goals; and each limit and each breaker on traces with
//! the shape of real load, beside a plain reference.

use leaparray_simulations::storms::{Bound, herd, run_all, section, storm};
use leaparray_simulations::traces::{self, Shape};

#[test]
fn goals_are_met() {
    let results = run_all();
    print!("{}", section(&results));
    assert_eq!(results.missed(), [""; 0]);
}

/// The simulation shows the trouble that a budget prevents.
#[test]
fn backend_does_not_recover_from_a_storm_without_a_budget() {
    let without = storm(Bound::Attempts);
    assert_eq!((without.recovery(), without.factor() > 2.9), (None, true));
    assert!(storm(Bound::NoRetries).recovery().is_some_and(|it| it <= 10));
    assert!(herd(1_000, 0).most >= 900);
}

#[test]
fn decisions_on_traces_are_those_of_references() {
    let results = traces::run_all(2);
    assert_eq!(results.missed(), [""; 0]);
    let section = traces::section(&results);
    for goodput in section.lines().last().expect("the goodputs").split(" | ") {
        assert!(goodput.contains('%'), "{section}");
    }
}

/// The traces have bursts: the busiest tenth of a second has many times the requests of the mean.
#[test]
fn traces_are_bursty() {
    let peak = |shape: Shape| {
        let mut tenths = vec![0_u64; 1_200];
        let requests = shape.draw(1);
        assert!((12_000..60_000).contains(&requests.len()), "{shape:?}: {}", requests.len());
        for request in &requests {
            tenths[usize::try_from(request.at / 100_000_000).expect("short")] += 1;
        }
        tenths.iter().max().expect("some") * 1_200 / requests.len() as u64
    };
    assert!(peak(Shape::Herd) >= 15 && peak(Shape::MarkovModulated) >= 5);
    assert!(peak(Shape::ParetoOnOff) >= 2 && peak(Shape::Diurnal) >= 2);
}

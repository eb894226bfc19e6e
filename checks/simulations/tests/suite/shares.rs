//! Tenants and classes that share a limit, with the goals.

use leaparray_simulations::shares::{
    Sharing, job, jobs, missed, missed_jobs, run_all, section, section_of_jobs,
};

#[test]
fn goals_are_met() {
    let results = run_all();
    print!("{}", section(&results));
    assert_eq!(missed(&results), [""; 0]);
}

#[test]
fn users_are_not_refused_for_the_sake_of_a_job() {
    let results = jobs();
    print!("{}", section_of_jobs(&results));
    assert_eq!(missed_jobs(&results), [""; 0]);
}

/// The simulation shows the trouble that classes prevent.
#[test]
fn job_displaces_users_without_classes() {
    assert!(job(Sharing::Plain).refused > 0.5);
    assert!(job(Sharing::Queue).refused > 0.5);
}

//! The load of the processors, from files.

use std::fs;
use std::path::Path;

use leaparray::Timestamp;
use leaparray::flow::adaptive::{CpuLoad, SystemCpu};

fn second(second: u64) -> Timestamp {
    Timestamp::from_secs(second)
}

fn write(folder: &Path, file: &str, text: &str) {
    let file = folder.join(file);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

#[test]
fn group_of_version_2_without_a_quota_may_use_all_processors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write(path, "stat", "cpu  1 1 1 1\ncpu0 1 1 1 1\ncpu1 1 1 1 1\ncpu2 1 1 1 1\nintr 5\n");
    write(path, "cpu.max", "max 100000\n");
    write(path, "cpu.stat", "usage_usec 5000000\nuser_usec 1\n");
    let mut cpu = SystemCpu::in_folders(path, path);
    assert_eq!(cpu.load(second(1)), None);
    write(path, "cpu.stat", "usage_usec 8000000\nuser_usec 1\n");
    assert_eq!(cpu.load(second(3)), Some(0.5), "3 s of three processors in 2 s");
    write(path, "cpuset.cpus.effective", "0-3,8\n");
    write(path, "cpu.stat", "usage_usec 10000000\nuser_usec 1\n");
    assert_eq!(cpu.load(second(4)), Some(0.4), "2 s of five processors in a second");
}

#[test]
fn group_of_version_1_has_its_quota() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write(path, "cpu/cpu.cfs_quota_us", "50000\n");
    write(path, "cpu/cpu.cfs_period_us", "100000\n");
    write(path, "cpuacct/cpuacct.usage", "1000000000\n");
    let mut cpu = SystemCpu::in_folders(path, path);
    assert_eq!(cpu.load(second(1)), None);
    write(path, "cpuacct/cpuacct.usage", "1250000000\n");
    assert_eq!(cpu.load(second(2)), Some(0.5), "0.25 s of half a processor");
    write(path, "cpu/cpu.cfs_quota_us", "-1\n");
    write(path, "cpuset/cpuset.effective_cpus", "0,2-3\n");
    write(path, "cpuacct/cpuacct.usage", "2750000000\n");
    assert_eq!(cpu.load(second(3)), Some(0.5), "1.5 s of three processors");
}

#[test]
fn quota_above_the_processors_counts_as_the_processors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write(path, "stat", "cpu  1 1 1 1\ncpu0 1 1 1 1\ncpu1 1 1 1 1\ncpu2 1 1 1 1\n");
    write(path, "cpu.max", "800000 100000\n");
    write(path, "cpuset.cpus.effective", "0-1\n");
    write(path, "cpu.stat", "usage_usec 0\n");
    let mut cpu = SystemCpu::in_folders(path, path);
    assert_eq!(cpu.load(second(1)), None);
    write(path, "cpu.stat", "usage_usec 2000000\n");
    assert_eq!(cpu.load(second(2)), Some(1.0), "2 s of two processors in a second");
    fs::remove_file(path.join("cpuset.cpus.effective")).unwrap();
    write(path, "cpu.stat", "usage_usec 3500000\n");
    assert_eq!(cpu.load(second(3)), Some(0.5), "1.5 s of three processors");
}

#[test]
fn machine_is_read_without_groups() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    // user nice system idle iowait irq softirq steal guest guest_nice
    write(path, "stat", "cpu  100 0 100 700 100 0 0 0 50 0\ncpu0 1 1 1 1\n");
    let mut cpu = SystemCpu::in_folders(path.join("none"), path);
    assert_eq!(cpu.load(second(1)), None);
    write(path, "stat", "cpu  130 0 110 740 110 5 3 2 60 0\ncpu0 1 1 1 1\n");
    assert_eq!(cpu.load(second(2)), Some(0.5), "50 of 100 ticks");
}

#[test]
fn load_is_unknown_without_files() {
    let folder = tempfile::tempdir().unwrap();
    let mut cpu = SystemCpu::in_folders(folder.path(), folder.path());
    assert_eq!([1, 2].map(|it| cpu.load(second(it))), [None, None]);
    write(folder.path(), "cpu.stat", "usage_usec many\n");
    write(folder.path(), "stat", "cpu  1 2\n");
    assert_eq!([3, 4].map(|it| cpu.load(second(it))), [None, None]);
}

#[test]
fn load_is_at_most_1_and_needs_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write(path, "cpu.max", "100000 100000\n");
    let mut cpu = SystemCpu::in_folders(path, path);
    write(path, "cpu.stat", "usage_usec 0\n");
    assert_eq!(cpu.load(second(1)), None);
    write(path, "cpu.stat", "usage_usec 9000000\n");
    assert_eq!(cpu.load(second(2)), Some(1.0));
    assert_eq!(cpu.load(second(2)), None, "no time has passed");
    assert_eq!(cpu.load(second(3)), Some(0.0));
}

#[test]
#[cfg(target_os = "linux")]
fn load_of_this_machine_is_read() {
    let mut cpu = SystemCpu::new();
    cpu.load(second(1));
    let load = cpu.load(second(2));
    assert!(load.is_none_or(|it| (0.0..=1.0).contains(&it)));
    assert!(fs::exists("/proc/stat").unwrap());
}

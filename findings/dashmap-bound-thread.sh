#!/usr/bin/env bash
# One thread that is bound to a processor leaves all maps of DashMap with 4 shards
#
# Guess: a map has shards for the processors of the machine; at worst, a map that a bound thread
# makes has fewer.
# Behaviour: the first thread of the process that makes a map decides for all later ones, on
# whichever thread they are made. The number of shards is four times the number of processors that
# the standard library names, and on Linux, it names those on which the calling thread may run. A
# service that binds its threads and makes its first map in one of them has 4 shards.
# Versions: dashmap 6.1.0.
# Here: the number of lanes, among which threads are spread, is that of the processors that are
# online. It was that of the first thread that asked, and threads that were bound shared two lanes.
. "$(dirname "$0")/lib.sh"

if [ "$(getconf _NPROCESSORS_ONLN)" = 1 ]; then
  echo "a machine with one processor cannot show it" >&2
  exit 2
fi

cargo_dependencies <<'END'
dashmap = { version = "=6.1.0", features = ["raw-api"] }
rustix = { version = "=1.1.6", features = ["thread"] }
END

program() {
  cargo_program <<'END'
use dashmap::DashMap;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::{env, process::Command, thread};

fn shards() -> usize {
    DashMap::<u64, u64>::new().shards().len()
}

fn bind() {
    let allowed = sched_getaffinity(None).unwrap();
    let first = (0..CpuSet::MAX_CPU).find(|&it| allowed.is_set(it)).unwrap();
    let mut one = CpuSet::new();
    one.set(first);
    sched_setaffinity(None, &one).unwrap();
}

fn main() {
    let processors = thread::available_parallelism().unwrap().get();
    if env::args().nth(1).is_some() {
        let of_bound = thread::spawn(|| {
            bind();
            shards()
        });
        println!("first map by a bound thread: {} shards", of_bound.join().unwrap());
        println!("a later map by a thread that is not bound: {} shards", shards());
        return;
    }
    let expected = (4 * processors).next_power_of_two();
    println!("first map by a thread that is not bound: for all processors, {}", shards() == expected);
    let of_bound = thread::spawn(|| {
        bind();
        shards()
    });
    println!("a later map by a bound thread: for all processors, {}", of_bound.join().unwrap() == expected);
    let again = Command::new(env::current_exe().unwrap()).arg("bound").output().unwrap();
    print!("{}", String::from_utf8(again.stdout).unwrap());
}
END
}

expect program <<'END'
first map by a thread that is not bound: for all processors, true
a later map by a bound thread: for all processors, true
first map by a bound thread: 4 shards
a later map by a thread that is not bound: 4 shards
END

//! Counts heap bytes with the allocator of `dhat`. The programs that measure costs run this one and
//! report its output: `leaparray-perf` without arguments, and `histograms`, `keyed` and
//! `middleware` with their names as the argument.

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

fn main() {
    leaparray_perf::print_bytes();
}

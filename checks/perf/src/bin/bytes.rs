//! Counts heap bytes with the allocator of `dhat`. `leaparray-perf` runs this program and reports its output.

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

fn main() {
    leaparray_perf::print_bytes();
}

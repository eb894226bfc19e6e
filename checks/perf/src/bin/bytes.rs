//! Counts bytes, for the program that reports them.

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

fn main() {
    leaparray_perf::print_bytes();
}

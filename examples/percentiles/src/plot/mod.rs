//! The distribution of response times as a bar chart, as text for a terminal.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::time::Duration;

use leaparray::LatencyHistogram;
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::widgets::{Bar, BarChart, Widget};

/// The largest number of bars. So the chart fits in a terminal of usual height.
const MAX_BARS: i32 = 24;

/// The length of the longest bar, in characters.
const BAR_LEN: usize = 40;

/// The coarsest scale that is needed: at it, the longest response time has bin 8, and the shortest
/// bin −8.
const COARSEST: i8 = -2;

/// Draws a bar for each bin from the shortest to the longest response time, at the finest scale at
/// which there are at most [`MAX_BARS`]. The bins of the mean and of some quantiles have marks. The
/// last line has their values.
///
/// A bin with a response time has a bar of at least one character.
pub(crate) fn plot(histogram: &LatencyHistogram) -> String {
    let Some((bins, first, last)) = downscaled(histogram) else {
        return "no response times\n".to_owned();
    };
    let marks = marks(histogram);
    let labels: Vec<_> = (first..=last).map(|index| label(&bins, index, &marks)).collect();
    let values = marks.map(|(name, rt)| format!("{name} {}", text_of(rt)));
    let bars = drawn(&labels, &lengths(&bins, first..=last));
    format!("{:>9} {:>8}\n{bars}{}\n", "up to", "count", values.join(", "))
}

/// Returns the histogram at the scale of the chart, with the indices of the first and the last bin;
/// `None` if it is empty.
fn downscaled(histogram: &LatencyHistogram) -> Option<(LatencyHistogram, i32, i32)> {
    (COARSEST..=histogram.scale()).rev().find_map(|scale| {
        let bins = histogram.downscaled(scale).ok()?;
        let [first, last] = [bins.min()?, bins.max()?].map(|rt| index_of(&bins, rt));
        let (first, last) = (first?, last?);
        (last - first < MAX_BARS).then_some((bins, first, last))
    })
}

/// Returns the text beside the bar of a bin: the upper bound, the count, and the marks of the
/// values in the bin.
fn label(bins: &LatencyHistogram, index: i32, marks: &[(&str, Duration)]) -> String {
    let here = marks.iter().filter(|(_, rt)| index_of(bins, *rt) == Some(index));
    let names = here.map(|&(name, _)| name).collect::<Vec<_>>().join(" ");
    format!("{:>9} {:>8}  {names:9}", text_of(upper(bins, index)), count_of(bins, index))
}

/// Returns the values of the bars: the counts, or as much as one character of the longest bar for a
/// smaller one.
fn lengths(bins: &LatencyHistogram, indices: RangeInclusive<i32>) -> Vec<u64> {
    let counts: Vec<_> = indices.map(|index| count_of(bins, index)).collect();
    let max = counts.iter().max().copied().unwrap_or(0);
    let at_least =
        |count: u64| if count == 0 { 0 } else { count.max(max.div_ceil(BAR_LEN as u64)) };
    counts.into_iter().map(at_least).collect()
}

fn count_of(bins: &LatencyHistogram, index: i32) -> u64 {
    bins.buckets().find(|bin| bin.index == index).map_or(0, |bin| bin.count)
}

/// Returns the values that have marks, with their names; zeros if the histogram is empty.
fn marks(histogram: &LatencyHistogram) -> [(&'static str, Duration); 4] {
    let [p50, p99, p999] = histogram.quantiles([0.5, 0.99, 0.999]);
    [("mean", histogram.mean()), ("p50", p50), ("p99", p99), ("p99.9", p999)]
        .map(|(name, rt)| (name, rt.unwrap_or_default()))
}

/// Returns the index of the bin of a response time.
fn index_of(bins: &LatencyHistogram, rt: Duration) -> Option<i32> {
    let mut one = bins.clone();
    one.clear();
    one.record(rt);
    one.buckets().next().map(|bin| bin.index)
}

/// Returns the upper bound of a bin, which may be empty.
fn upper(bins: &LatencyHistogram, index: i32) -> Duration {
    let octaves = f64::from(index + 1) / f64::from(bins.scale()).exp2();
    Duration::from_secs_f64(octaves.exp2())
}

fn text_of(rt: Duration) -> String {
    format!("{rt:.2?}")
}

/// Draws bars of these values below each other, each beside its label.
fn drawn(labels: &[String], values: &[u64]) -> String {
    let bars = labels.iter().zip(values).map(|(label, &value)| {
        // The count is in the label. On a bar without colours, it would look like a part of the
        // bar.
        Bar::with_label(label.as_str(), value).text_value("")
    });
    let label_len = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let [width, height] = [label_len + 1 + BAR_LEN, labels.len()]
        .map(|len| u16::try_from(len).expect("labels are short, and there are few"));
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    BarChart::horizontal(bars.collect::<Vec<_>>()).bar_gap(0).render(buffer.area, &mut buffer);
    let mut text = String::new();
    for line in buffer.content().chunks(width.into()) {
        let line: String = line.iter().map(Cell::symbol).collect();
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

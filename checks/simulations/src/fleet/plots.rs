//! The plots of the page.

use std::error::Error;

use plotters::prelude::*;

use super::cases::{PLOTTED_NODES, Table};
use super::{Observed, Results, Strategy, float};

/// A plot of a result by the number of nodes, for windows of a second.
pub(super) struct Plot {
    pub(super) file: &'static str,
    /// The text in place of the picture.
    pub(super) text: &'static str,
    axis: &'static str,
    highest: f64,
    /// Where the names of the strategies are, in pixels from the top.
    names_at: i32,
    of: fn(&Observed) -> f64,
}

pub(super) const PLOTS: [Plot; 3] = [
    Plot {
        file: "simulations/fleet-utilisation.svg",
        text: "The utilisation of the strategies by the number of nodes",
        axis: "admitted, % of a central limiter",
        highest: 160.0,
        names_at: 215,
        of: |it| it.utilisation * 100.0,
    },
    Plot {
        file: "simulations/fleet-overshoot.svg",
        text: "The worst overshoot of the strategies by the number of nodes",
        axis: "beyond the limit, %",
        highest: 60.0,
        names_at: 75,
        of: |it| it.overshoot * 100.0,
    },
    Plot {
        file: "simulations/fleet-operations.svg",
        text: "The operations of the strategies for each admitted request by the number of nodes",
        axis: "operations per admitted request",
        highest: 1.6,
        names_at: 75,
        of: |it| it.operations_per_admitted,
    },
];

const COLORS: [RGBColor; Strategy::ALL.len()] = [
    RGBColor(214, 39, 40),
    RGBColor(31, 119, 180),
    RGBColor(44, 160, 44),
    RGBColor(255, 127, 14),
    RGBColor(148, 103, 189),
];

impl Plot {
    /// Draws the plot as SVG.
    pub(super) fn draw(&self, results: &Results) -> Result<String, Box<dyn Error>> {
        let mut svg = String::new();
        let area = SVGBackend::with_string(&mut svg, (900, 360)).into_drawing_area();
        area.fill(&WHITE)?;
        // By the index of the number of nodes: no logarithm of the system is needed.
        let last = float(PLOTTED_NODES.len() as u64 - 1);
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .x_label_area_size(32)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..last, 0.0..self.highest)?;
        let name = |at: &f64| {
            let index =
                (0_u64..).zip(PLOTTED_NODES).find(|(index, _)| (float(*index) - at).abs() < 0.01);
            index.map_or_else(String::new, |(_, nodes)| nodes.to_string())
        };
        let mut mesh = chart.configure_mesh();
        mesh.x_desc("nodes").y_desc(self.axis).x_labels(PLOTTED_NODES.len());
        mesh.x_label_formatter(&name).max_light_lines(0).draw()?;
        // The leases last, above the others.
        for (strategy, color) in Strategy::ALL.into_iter().zip(COLORS).rev() {
            let cases = results
                .0
                .iter()
                .filter(|(case, _)| case.table == Table::Second && case.strategy == strategy);
            let points = (0_u64..).map(float).zip(cases.map(|(_, it)| (self.of)(it)));
            let width = if strategy == Strategy::Leases { 3 } else { 2 };
            chart
                .draw_series(LineSeries::new(points, color.stroke_width(width)))?
                .label(strategy.name())
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::Coordinate(8, self.names_at))
            .background_style(WHITE.mix(0.8))
            .draw()?;
        area.present()?;
        drop(chart);
        drop(area);
        Ok(svg)
    }
}

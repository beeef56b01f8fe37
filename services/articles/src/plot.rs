//! The like graph as a picture, PNG or SVG. A font is part of the program, so that it looks the same
//! on a machine without any.

use std::sync::OnceLock;

use anyhow::{Context, anyhow};
use jiff::Timestamp;
use plotters::{
    chart::{ChartBuilder, ChartContext},
    coord::{
        cartesian::Cartesian2d,
        ranged1d::{DefaultFormatting, KeyPointHint, Ranged},
        types::RangedCoordi64,
    },
    prelude::*,
    style::{
        register_font,
        text_anchor::{HPos, Pos, VPos},
    },
};

use crate::{
    domain::AuthorId,
    series::{Series, Window},
};

/// Width and height of the SVG; the PNG has twice as many pixels each way, for sharp screens.
const SIZE: (u32, u32) = (900, 480);
const PNG_SCALE: u32 = 2;

/// Most bars that have their number written above them.
const NUMBERED_BARS_MAX: usize = 40;
/// Most authors with a colour of their own; all others share the last.
const AUTHORS_MAX: usize = 6;

const INK: RGBColor = RGBColor(31, 41, 55);
const PALE_INK: RGBColor = RGBColor(107, 114, 128);
const GRID: RGBColor = RGBColor(229, 231, 235);
/// Colours that people who cannot tell red from green can tell apart (Okabe and Ito).
const COLOURS: [RGBColor; AUTHORS_MAX] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(156, 163, 175),
];

type Area<DB> = DrawingArea<DB, plotters::coord::Shift>;
type Chart<'a, DB> = ChartContext<'a, DB, Cartesian2d<Seconds, RangedCoordi64>>;

/// The picture as a PNG.
///
/// # Errors
/// When it cannot be drawn, which would be a bug.
pub fn png(series: &Series) -> anyhow::Result<Vec<u8>> {
    let (width, height) = (SIZE.0 * PNG_SCALE, SIZE.1 * PNG_SCALE);
    let mut pixels = vec![0; (width * height * 3) as usize];
    {
        let area = BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area();
        draw(&area, series, f64::from(PNG_SCALE))?;
    }
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_compression(png::Compression::High);
    encoder.write_header()?.write_image_data(&pixels)?;
    Ok(bytes)
}

/// The picture as SVG.
///
/// # Errors
/// When it cannot be drawn, which would be a bug.
pub fn svg(series: &Series) -> anyhow::Result<String> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        draw(&area, series, 1.0)?;
    }
    Ok(text)
}

/// Fonts for text, once a process.
fn fonts() -> anyhow::Result<()> {
    static FONTS: OnceLock<bool> = OnceLock::new();
    let are_there = FONTS.get_or_init(|| {
        register_font("sans-serif", FontStyle::Normal, dejavu::sans::regular()).is_ok()
            && register_font("sans-serif", FontStyle::Bold, dejavu::sans::bold()).is_ok()
    });
    are_there.then_some(()).context("the font of this program cannot be read")
}

/// How everything is written: size in points of the SVG, times the scale.
struct Pen {
    scale: f64,
}

impl Pen {
    fn px(&self, points: f64) -> i32 {
        (points * self.scale).round() as i32
    }

    fn text(&self, points: f64, colour: RGBColor) -> TextStyle<'static> {
        ("sans-serif", points * self.scale).into_font().color(&colour)
    }

    fn bold(&self, points: f64, colour: RGBColor) -> TextStyle<'static> {
        ("sans-serif", points * self.scale, FontStyle::Bold).into_font().color(&colour)
    }
}

fn draw<DB>(area: &Area<DB>, series: &Series, scale: f64) -> anyhow::Result<()>
where
    DB: DrawingBackend,
    DB::ErrorType: 'static,
{
    fonts()?;
    let pen = Pen { scale };
    area.fill(&WHITE).map_err(drawing)?;
    let title = title(series.step_seconds);
    area.draw(&Text::new(title, (pen.px(28.0), pen.px(20.0)), pen.bold(19.0, INK)))
        .map_err(drawing)?;
    let subtitle =
        Text::new(subtitle(series), (pen.px(28.0), pen.px(47.0)), pen.text(12.0, PALE_INK));
    area.draw(&subtitle).map_err(drawing)?;
    let shown = shown(series);
    if shown.len() > 1 {
        legend(area, &pen, &shown)?;
    }

    let highest = series.totals().into_iter().max().unwrap_or(0).max(4);
    let step = series.step_seconds as f64;
    let (first, last) = (series.start(0) as f64, series.start(series.len().max(10) - 1) as f64);
    let mut chart = ChartBuilder::on(area)
        .margin_top(pen.px(78.0))
        .margin_right(pen.px(28.0))
        .margin_bottom(pen.px(14.0))
        .margin_left(pen.px(18.0))
        .set_label_area_size(LabelAreaPosition::Left, pen.px(50.0))
        .set_label_area_size(LabelAreaPosition::Bottom, pen.px(48.0))
        .build_cartesian_2d(
            Seconds { from: first - 0.65 * step, until: last + 0.65 * step },
            0..i64::try_from(highest).unwrap_or(i64::MAX) * 9 / 8 + 1,
        )
        .map_err(drawing)?;
    axes(&mut chart, &pen, series.step_seconds)?;
    bars(&mut chart, series, &shown)?;
    if series.len() <= NUMBERED_BARS_MAX {
        numbers(&mut chart, &pen, series)?;
    }
    area.present().map_err(drawing)
}

fn drawing(error: impl std::error::Error) -> anyhow::Error {
    anyhow!("the graph cannot be drawn: {error}")
}

/// Time along the x axis, marked at round times.
#[derive(Clone)]
struct Seconds {
    from: f64,
    until: f64,
}

impl Ranged for Seconds {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (left, right): (i32, i32)) -> i32 {
        let part = (value - self.from) / (self.until - self.from);
        left + (part * f64::from(right - left)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        let (first, last) = (self.from.ceil() as i64, self.until.floor() as i64);
        let marks_max = i64::try_from(hint.max_num_points()).unwrap_or(1).max(1);
        let marks = Window::covering(first, last, marks_max);
        marks
            .starts()
            .filter(|mark| (first..=last).contains(mark))
            .map(|mark| mark as f64)
            .collect()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.from..self.until
    }
}

fn axes<DB>(chart: &mut Chart<'_, DB>, pen: &Pen, step_seconds: i64) -> anyhow::Result<()>
where
    DB: DrawingBackend,
    DB::ErrorType: 'static,
{
    let has_days = chart.x_range().end - chart.x_range().start > 86_400.0;
    let form = if has_days { "%m-%d %H:%M" } else { "%H:%M:%S" };
    let time = |second: &f64| match Timestamp::from_second(*second as i64) {
        Ok(at) => at.strftime(form).to_string(),
        Err(_) => String::new(),
    };
    let unit = if step_seconds == 1 { "second (UTC)" } else { "time (UTC)" };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .bold_line_style(GRID.stroke_width(pen.px(1.0).unsigned_abs()))
        .light_line_style(TRANSPARENT)
        .axis_style(GRID.stroke_width(pen.px(1.0).unsigned_abs()))
        .set_all_tick_mark_size(pen.px(6.0))
        .x_labels(12)
        .y_labels(8)
        .x_label_formatter(&time)
        .x_desc(unit)
        .y_desc("likes")
        .label_style(pen.text(11.0, PALE_INK))
        .axis_desc_style(pen.text(12.0, INK))
        .draw()
        .map_err(drawing)
}

/// An author's name and colour, and which authors of the series it stands for.
struct Shown {
    name: String,
    colour: RGBColor,
    authors: Vec<AuthorId>,
}

/// Authors in the order they are stacked, the most liked at the bottom.
fn shown(series: &Series) -> Vec<Shown> {
    let mut authors: Vec<_> = series.authors.keys().copied().collect();
    authors.sort_by_key(|author| std::cmp::Reverse(series.authors[author].iter().sum::<u64>()));
    let others =
        if authors.len() > AUTHORS_MAX { authors.split_off(AUTHORS_MAX - 1) } else { vec![] };
    let own = authors.into_iter().map(|author| (format!("author {author}"), vec![author]));
    let others = (!others.is_empty()).then(|| ("others".to_owned(), others));
    own.chain(others)
        .zip(COLOURS)
        .map(|((name, authors), colour)| Shown { name, colour, authors })
        .collect()
}

fn bars<DB>(chart: &mut Chart<'_, DB>, series: &Series, shown: &[Shown]) -> anyhow::Result<()>
where
    DB: DrawingBackend,
    DB::ErrorType: 'static,
{
    let half = series.step_seconds as f64 * 0.4;
    for stretch in 0..series.len() {
        let middle = series.start(stretch) as f64;
        let mut bottom = 0;
        for Shown { colour, authors, .. } in shown {
            let likes: u64 = authors.iter().map(|author| series.authors[author][stretch]).sum();
            let top = bottom + i64::try_from(likes).unwrap_or(i64::MAX);
            if top > bottom {
                let corners = [(middle - half, bottom), (middle + half, top)];
                let bar = Rectangle::new(corners, colour.filled());
                chart.draw_series([bar]).map_err(drawing)?;
            }
            bottom = top;
        }
    }
    Ok(())
}

/// How many, above every bar; a zero is said too.
fn numbers<DB>(chart: &mut Chart<'_, DB>, pen: &Pen, series: &Series) -> anyhow::Result<()>
where
    DB: DrawingBackend,
    DB::ErrorType: 'static,
{
    let above = Pos::new(HPos::Center, VPos::Bottom);
    for (stretch, total) in series.totals().into_iter().enumerate() {
        let colour = if total == 0 { PALE_INK } else { INK };
        let style = pen.text(11.0, colour).pos(above);
        let top = (series.start(stretch) as f64, i64::try_from(total).unwrap_or(i64::MAX));
        let number = EmptyElement::at(top) + Text::new(total.to_string(), (0, -pen.px(3.0)), style);
        chart.draw_series([number]).map_err(drawing)?;
    }
    Ok(())
}

/// Names and colours, at the upper right.
fn legend<DB>(area: &Area<DB>, pen: &Pen, shown: &[Shown]) -> anyhow::Result<()>
where
    DB: DrawingBackend,
    DB::ErrorType: 'static,
{
    let style = pen.text(12.0, INK);
    let (mut right, middle) = (pen.px(f64::from(SIZE.0) - 28.0), pen.px(32.0));
    for Shown { name, colour, .. } in shown.iter().rev() {
        let (width, _) = area.estimate_text_size(name, &style).map_err(drawing)?;
        let left = right - i32::try_from(width).unwrap_or(0);
        let text = style.pos(Pos::new(HPos::Left, VPos::Center));
        area.draw(&Text::new(name.clone(), (left, middle), text)).map_err(drawing)?;
        let corner = (left - pen.px(17.0), middle - pen.px(6.0));
        let square = [corner, (corner.0 + pen.px(11.0), corner.1 + pen.px(11.0))];
        area.draw(&Rectangle::new(square, colour.filled())).map_err(drawing)?;
        right = corner.0 - pen.px(16.0);
    }
    Ok(())
}

fn title(step_seconds: i64) -> String {
    let (number, unit) = match step_seconds {
        1..60 => (step_seconds, "second"),
        60..3600 => (step_seconds / 60, "minute"),
        3600..86_400 => (step_seconds / 3600, "hour"),
        _ => (step_seconds / 86_400, "day"),
    };
    match number {
        1 => format!("Likes by {unit}"),
        _ => format!("Likes by {number} {unit}s"),
    }
}

fn subtitle(series: &Series) -> String {
    if series.is_empty() {
        return "no likes yet".to_owned();
    }
    let likes =
        if series.total == 1 { "1 like".to_owned() } else { format!("{} likes", series.total) };
    let of = match series.authors.len() {
        1 => format!("author {}", series.authors.keys().next().expect("there is one")),
        authors => format!("{authors} authors"),
    };
    let text = |second, form| match Timestamp::from_second(second) {
        Ok(at) => at.strftime(form).to_string(),
        Err(_) => String::new(),
    };
    let (first, last) = (series.start(0), series.start(series.len() - 1));
    let is_one_day = first.div_euclid(86_400) == last.div_euclid(86_400);
    let until = text(last, if is_one_day { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" });
    format!("{likes} of {of}, {} to {until} UTC", text(first, "%Y-%m-%d %H:%M:%S"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::{Count, POINTS_MAX};

    fn series(authors: i64, seconds: usize) -> Series {
        let last = i64::try_from(seconds).expect("few") - 1;
        let window = Window::covering(1_760_000_000, 1_760_000_000 + last, POINTS_MAX);
        let author = |id: i64| AuthorId::try_from(id).expect("an id");
        let counts = (1..=authors).flat_map(|id| {
            (0..window.len()).map(move |stretch| {
                let likes = (stretch as u64 * 7 + id.unsigned_abs() * 3) % 11;
                Count { author: author(id), stretch, likes }
            })
        });
        Series::new(window, counts)
    }

    #[test]
    fn r7_09_the_picture_has_its_title_its_axes_and_every_number() {
        let picture = svg(&series(1, 10)).unwrap();
        for text in ["Likes by second", "second (UTC)", "likes", "author 1", "08:53:20"] {
            assert!(picture.contains(text), "{text}");
        }
        let rectangles = picture.matches("<rect").count();
        assert!(rectangles >= 9, "{rectangles}");
    }

    #[test]
    fn r7_09_a_png_is_a_png_whatever_there_is_to_draw() {
        for (authors, seconds) in [(0, 1), (1, 1), (3, 60), (9, 300), (2, 100_000)] {
            let bytes = png(&series(authors, seconds)).unwrap();
            assert!(bytes.starts_with(b"\x89PNG"), "{authors} authors, {seconds} seconds");
            assert!(bytes.len() < 200_000, "{} bytes", bytes.len());
        }
    }

    #[test]
    fn many_authors_share_a_colour_and_none_is_lost() {
        let series = series(9, 5);
        let shown = shown(&series);
        assert_eq!(shown.len(), AUTHORS_MAX);
        assert_eq!(shown.iter().map(|shown| shown.authors.len()).sum::<usize>(), 9);
        assert_eq!(shown[AUTHORS_MAX - 1].name, "others");
    }

    #[test]
    fn titles_say_how_long_a_bar_is() {
        for (step, expected) in [
            (1, "Likes by second"),
            (5, "Likes by 5 seconds"),
            (60, "Likes by minute"),
            (7200, "Likes by 2 hours"),
            (86_400, "Likes by day"),
        ] {
            assert_eq!(title(step), expected);
        }
    }
}

//! Functions for durations and times in queries, in addition to DataFusion's own.

use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Volatility, create_udf};
use datafusion::prelude::SessionContext;
use jiff::tz::TimeZone;
use sordino_event::{Nanos, Time};
use sordino_query::{TimePoint, Within};
use std::sync::Arc;

/// The units of durations, in nanoseconds.
const UNITS: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];

/// Adds the functions to a context, for a recording with this first and last time.
pub(crate) fn register(context: &SessionContext, span: (Time, Time)) {
    for (name, unit) in UNITS {
        context.register_udf(to_nanos(name, unit));
        context.register_udf(from_nanos(name, unit));
    }
    context.register_udf(duration());
    context.register_udf(clock());
    context.register_udf(at(span));
}

/// Makes a function of one argument.
fn function(
    name: &str,
    from: DataType,
    to: DataType,
    apply: impl Fn(&ArrayRef) -> Result<ArrayRef> + Send + Sync + 'static,
) -> ScalarUDF {
    let body = move |arguments: &[ColumnarValue]| {
        let is_scalar = matches!(arguments, [ColumnarValue::Scalar(_)]);
        let arrays = ColumnarValue::values_to_arrays(arguments)?;
        let [array] = &*arrays else {
            return Err(DataFusionError::Execution("a function of one argument".to_owned()));
        };
        let result = apply(array)?;
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from_array(&result, 0)?),
            false => ColumnarValue::Array(result),
        })
    };
    create_udf(name, vec![from], to, Volatility::Immutable, Arc::new(body))
}

/// Makes `us(50)`: a duration in nanoseconds.
fn to_nanos(name: &str, unit: f64) -> ScalarUDF {
    function(name, DataType::Float64, DataType::Int64, move |array| {
        let nanos =
            array.as_primitive::<Float64Type>().unary::<_, Int64Type>(|value| (value * unit).round() as i64);
        Ok(Arc::new(nanos))
    })
}

/// Makes `in_us(length_ns)`: a duration in a unit.
fn from_nanos(name: &str, unit: f64) -> ScalarUDF {
    function(&format!("in_{name}"), DataType::Int64, DataType::Float64, move |array| {
        let values = array.as_primitive::<Int64Type>().unary::<_, Float64Type>(|value| value as f64 / unit);
        Ok(Arc::new(values))
    })
}

/// Makes `duration(length_ns)`: a text with the unit that fits.
fn duration() -> ScalarUDF {
    function("duration", DataType::Int64, DataType::Utf8, |array| {
        Ok(texts(array, |nanos| Nanos(nanos).to_string()))
    })
}

/// Makes `clock(time_ns)`: local date and time.
fn clock() -> ScalarUDF {
    function("clock", DataType::Int64, DataType::Utf8, |array| {
        let zone = TimeZone::system();
        Ok(texts(array, |time| {
            let time = jiff::Timestamp::from_nanosecond(time.into()).unwrap_or_default();
            time.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S%.9f").to_string()
        }))
    })
}

fn texts(array: &ArrayRef, text: impl Fn(i64) -> String) -> ArrayRef {
    let array: &Int64Array = array.as_primitive();
    Arc::new(array.iter().map(|value| value.map(&text)).collect::<StringArray>())
}

/// Makes `at('14:03:27.5')`: the nanoseconds of a time that is written as for `--from`.
fn at(span: (Time, Time)) -> ScalarUDF {
    function("at", DataType::Utf8, DataType::Int64, move |array| {
        let array = cast(array, &DataType::Utf8)?;
        let time = |text: &str| {
            let point: TimePoint = text.parse().map_err(|text: String| refused(&text))?;
            let within = Within { from: Some(point), to: None, around: None };
            let everything = (span.0, Time::MAX);
            let resolved = within.resolve(span, &TimeZone::system());
            let resolved = resolved.or_else(|_| within.resolve(everything, &TimeZone::system()));
            resolved.map(|(time, _)| time.0).map_err(|text: String| refused(&text))
        };
        let texts = array.as_string::<i32>();
        let times = texts.iter().map(|text| text.map(time).transpose());
        Ok(Arc::new(times.collect::<Result<Int64Array>>()?))
    })
}

fn refused(text: &str) -> DataFusionError {
    DataFusionError::Execution(format!("at(): {text}"))
}

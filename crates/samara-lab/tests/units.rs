//! Quantities: what reads, what does not, and that what is written reads back.

use proptest::prelude::*;
use samara_lab::units::{Rate, Share, Size, Span, UnitKind};

#[test]
fn quantities_read() {
    let rate = |text: &str| text.parse::<Rate>().unwrap().bits_per_second();
    assert_eq!(rate("20 Mbit/s"), 20_000_000);
    assert_eq!(rate("1Gbit/s"), 1_000_000_000);
    assert_eq!(rate("1.5 kbit/s"), 1500);
    let span = |text: &str| text.parse::<Span>().unwrap().nanos();
    assert_eq!(span("50 ms"), 50_000_000);
    assert_eq!(span(" 0.25 ms "), 250_000);
    assert_eq!(span("2 min"), 120_000_000_000);
    assert_eq!((span("3 us"), span("3 µs"), span("1_000 ns")), (3000, 3000, 1000));
    let size = |text: &str| text.parse::<Size>().unwrap().bytes();
    assert_eq!((size("16 KiB"), size("128 kB"), size("40 B"), size("0.5 KiB")), (16_384, 128_000, 40, 512));
    let share = |text: &str| text.parse::<Share>().unwrap().fraction();
    assert_eq!((share("0.1 %"), share("100 %"), share("7%")), (0.001, 1.0, 0.07));
}

#[test]
fn quantities_display_in_the_unit_that_reads_best() {
    let span = |nanos| Span::from_nanos(nanos).to_string();
    assert_eq!(span(0), "0 s");
    assert_eq!(span(50_000_000), "50 ms");
    assert_eq!(span(1_500_000_000), "1.5 s");
    assert_eq!(span(60_000_000_000), "60 s");
    assert_eq!(span(120_000_000_000), "2 min");
    assert_eq!(span(7_200_000_000_000), "2 h");
    assert_eq!(Rate::from_mbit_per_second(20).to_string(), "20 Mbit/s");
    assert_eq!(Rate::from_mbit_per_second(1500).to_string(), "1.5 Gbit/s");
    assert_eq!(Size::from_kib(16).to_string(), "16 KiB");
    assert_eq!(Size::from_bytes(128_000).to_string(), "128 kB");
    assert_eq!(Size::from_bytes(1460).to_string(), "1460 B");
    assert_eq!(Share::from_percent(25).to_string(), "25 %");
    assert_eq!("0.1 %".parse::<Share>().unwrap().to_string(), "0.1 %");
}

#[test]
fn errors_say_what_is_wrong_and_what_is_allowed() {
    let error = |kind: UnitKind, text: &str| kind.parse(text).unwrap_err().to_string();
    assert_eq!(
        error(UnitKind::Rate, "20"),
        "\"20\" is not a data rate: it has no unit; write a number and a unit (bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s), \
         for example \"20 Mbit/s\""
    );
    assert_eq!(
        error(UnitKind::Share, "120 %"),
        "\"120 %\" is not a share: it is more than the whole; write a number of percent from 0 % to 100 %, for example \
         \"0.1 %\""
    );
    let reasons = [
        (UnitKind::Rate, "20 Mbps", "there is no unit \"Mbps\", did you mean \"20 Mbit/s\"?"),
        (UnitKind::Rate, "20 MBIT/S", "there is no unit \"MBIT/S\", did you mean \"20 Mbit/s\"?"),
        (UnitKind::Rate, "20 MB/s", "rates are in bits per second, not \"MB/s\""),
        (UnitKind::Rate, "20 furlongs", "there is no unit \"furlongs\" of it"),
        (UnitKind::Size, "128 KB", "there is no unit \"KB\", did you mean \"128 kB\"?"),
        (UnitKind::Span, "5 m", "there is no unit \"m\", did you mean \"5 min\"?"),
        (UnitKind::Span, "ms", "it does not begin with a number"),
        (UnitKind::Span, "-5 ms", "it must not have a sign"),
        (UnitKind::Span, "1.2.3 ms", "\"1.2.3\" is not a decimal number"),
        (UnitKind::Span, "1_ ms", "\"1_\" is not a decimal number"),
        (UnitKind::Span, "0.5 ns", "it is finer than 1 ns"),
        (UnitKind::Span, "99999999999 h", "it is too large"),
    ];
    for (kind, text, reason) in reasons {
        assert_eq!(kind.parse(text).unwrap_err().reason, reason, "{text}");
    }
}

#[test]
fn schema_patterns_name_all_units() {
    for kind in UnitKind::ALL {
        let schema = kind.schema().to_value();
        assert_eq!(schema["x-unit"], kind.name());
        assert_eq!(UnitKind::named(kind.name()), Some(kind));
        let example = schema["examples"][0].as_str().unwrap();
        assert_eq!(kind.display(kind.parse(example).unwrap()), example);
    }
}

proptest! {
    #[test]
    fn what_is_displayed_reads_back(value: u64, shift in 0u32..64) {
        let value = value >> shift;
        for kind in [UnitKind::Rate, UnitKind::Span, UnitKind::Size] {
            prop_assert_eq!(kind.parse(&kind.display(value)), Ok(value));
        }
        let share = value % 1_000_000_000_001;
        prop_assert_eq!(UnitKind::Share.parse(&UnitKind::Share.display(share)), Ok(share));
    }

    #[test]
    fn serde_round_trips(nanos: u64) {
        let span = Span::from_nanos(nanos);
        let text = serde_json::to_string(&span).unwrap();
        prop_assert_eq!(serde_json::from_str::<Span>(&text).unwrap(), span);
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,20}") {
        for kind in UnitKind::ALL {
            let _ = kind.parse(&text);
        }
    }
}

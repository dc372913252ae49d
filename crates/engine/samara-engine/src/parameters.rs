//! A macro for the sections of a configuration file whose keys override a preset.

/// Declares a section of a file: values that always exist, and keys that override a value of the
/// engine's configuration if they are set.
///
/// The struct gets the traits of serde and schemars. Its method `set` sets the fields of the
/// configuration that have a key of their own: the field follows `=>`, and a conversion `via`. Its
/// function `key_of` returns the key of such a field.
///
/// ```
/// use samara_engine::units::Span;
///
/// #[derive(Default)]
/// struct Config {
///     wait: std::time::Duration,
/// }
///
/// samara_engine::parameters! {
///     /// The parameters of a protocol.
///     Parameters for Config {
///         /// The name of a preset.
///         preset: String,
///     } and {
///         /// Time to wait.
///         patience: Span => wait via Span::duration;
///     }
/// }
///
/// let mut config = Config::default();
/// Parameters { patience: Some(Span::from_millis(2)), ..Parameters::default() }.set(&mut config);
/// assert_eq!(config.wait.as_millis(), 2);
/// assert_eq!(Parameters::key_of("wait"), Some("patience"));
/// ```
#[macro_export]
macro_rules! parameters {
    (
        $(#[$about:meta])*
        $type:ident for $config:ty {
            $($(#[$attribute:meta])* $plain:ident: $plain_type:ty,)*
        } and {
            $($(#[$doc:meta])* $key:ident: $kind:ty $(=> $($field:ident).+ $(via $convert:expr)?)?;)*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct $type {
            $($(#[$attribute])* pub $plain: $plain_type,)*
            $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $key: Option<$kind>,)*
        }

        impl $type {
            /// Sets the fields that have a key of their own.
            fn set(&self, config: &mut $config) {
                $($(
                    let value = self.$key;
                    $(let value = value.map($convert);)?
                    if let Some(value) = value {
                        config.$($field).+ = value;
                    }
                )?)*
            }

            /// Returns the key that sets a field of the configuration.
            #[allow(dead_code, reason = "not every section names keys in errors")]
            fn key_of(field: &str) -> Option<&'static str> {
                $($(
                    if [$(stringify!($field)),+].join(".") == field {
                        return Some(stringify!($key));
                    }
                )?)*
                None
            }
        }
    };
}

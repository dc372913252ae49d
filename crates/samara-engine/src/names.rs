//! Enums whose variants have names in reports, metrics and options.

/// Declares an enum whose variants have names, which reports, metrics and options share.
///
/// It gets the usual traits, the list `ALL` in the order of the declaration, `name`, and `from_name`. Other derives, such as those
/// of serde, are given as attributes.
///
/// ```
/// samara_engine::names! {
///     /// What a node does next.
///     pub enum Step {
///         Send = "send",
///         Wait = "wait",
///     }
/// }
/// assert_eq!(Step::ALL.map(Step::name), ["send", "wait"]);
/// assert_eq!(Step::from_name("wait"), Some(Step::Wait));
/// ```
#[macro_export]
macro_rules! names {
    (
        $(#[$about:meta])*
        $vis:vis enum $type:ident { $($(#[$attribute:meta])* $variant:ident = $name:literal,)+ }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis enum $type {
            $($(#[$attribute])* $variant,)+
        }

        impl $type {
            /// All variants, in the order of the declaration.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// What reports, metrics and options call it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// The variant of this name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|variant| variant.name() == name)
            }
        }
    };
}

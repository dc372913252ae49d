//! A macro for enums whose variants have names in reports, metrics and options.

/// Declares an enum whose variants have names, which reports, metrics and options share.
///
/// The enum gets the usual traits, the list `ALL` in the order of the declaration, `name`, and
/// `from_name`. Add other derives, such as those of serde, as attributes.
///
/// ```
/// samara_engine::names! {
///     /// The next action of a node.
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

            /// Returns the name of the variant in reports, metrics and options.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Returns the variant with this name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|variant| variant.name() == name)
            }
        }

        impl $crate::Named for $type {
            type Array<T: Copy> = [T; Self::ALL.len()];

            const ALL: &'static [Self] = &Self::ALL;

            fn name(self) -> &'static str {
                self.name()
            }

            fn place(self) -> usize {
                self as usize
            }

            fn array<T: Copy>(element: T) -> Self::Array<T> {
                [element; Self::ALL.len()]
            }
        }
    };
}

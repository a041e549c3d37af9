//! Each model holds for the shipped library.

use admission_models_whole::models::turns;

/// Each of these is a test, and the model of the same name.
macro_rules! hold {
    ($($models:ident: $($model:ident),+;)+) => {
        $($(#[test] fn $model() { $models::$model(); })+)+
    };
}

hold! {
    turns: no_wake_up_is_lost;
}

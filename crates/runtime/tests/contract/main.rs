//! Checks what every runtime promises, for the fake one, for processes and for a real Docker engine; and what only one
//! of them can show.
//!
//! Tests named `docker::` and `docker_only::` need an engine (`DOCKER_HOST` or the default socket) and say so where
//! there is none.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod docker_only;
#[cfg(test)]
mod engine;
#[cfg(test)]
mod fake_faults;
#[cfg(test)]
mod machine;
#[cfg(test)]
mod process_only;
#[cfg(test)]
mod processes;
#[cfg(test)]
mod stub;

macro_rules! suite {
    ($($case:ident),+ $(,)?) => {
        mod fake {
            $(
                #[tokio::test]
                async fn $case() {
                    crate::cases::$case(&crate::machine::Machine::fake()).await;
                }
            )+
        }

        mod process {
            $(
                #[tokio::test]
                async fn $case() {
                    crate::cases::$case(&crate::machine::Machine::process()).await;
                }
            )+
        }

        mod docker {
            $(
                #[tokio::test]
                async fn $case() {
                    if let Some(machine) = crate::machine::Machine::docker().await {
                        crate::cases::$case(&machine).await;
                    }
                }
            )+
        }
    };
}

suite![
    a_launched_container_is_found_and_listed_as_launched,
    instances_of_one_model_are_told_apart,
    a_leftover_is_replaced,
    a_running_leftover_is_replaced,
    a_foreign_name_is_refused_and_left_alone,
    another_gateways_containers_are_not_seen,
    another_gateways_name_is_refused_and_left_alone,
    an_exit_reports_its_code,
    a_killed_container_reports_137,
    a_graceful_stop_ends_with_the_engines_own_code,
    a_stubborn_engine_is_killed_after_the_grace,
    stop_and_remove_may_be_repeated,
    logs_are_the_last_lines,
    logs_of_a_gone_container_are_empty,
    followed_logs_end_with_the_container,
    a_missing_image_is_named,
    an_image_is_described,
    an_image_is_asked_and_nothing_is_left,
    events_hint_at_the_model,
    the_runtime_introduces_itself,
    what_it_says_of_images_is_so,
    images_that_were_saved_are_loaded_as_they_were,
    a_missing_image_is_not_saved,
    an_archive_that_breaks_off_is_not_loaded,
    engines_see_the_paths_that_it_says,
    a_variable_is_refused_before_the_start_or_not_at_all,
];

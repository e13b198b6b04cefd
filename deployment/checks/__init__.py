"""Rules for the shape of the code, which `make check` runs as `python -m deployment.checks`.

A rule is a function that takes the project and yields its violations. `exceptions.toml` lists the exceptions from rules
with their reasons. An exception that is not needed is also a violation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from deployment.checks import declarations, documents, imports, journal, modules, state, words
from deployment.checks.project import Project, Violation

Rule = Callable[[Project], Iterator[Violation]]
RULES: tuple[Rule, ...] = (
    state.no_global_statement,
    state.no_mutable_module_state,
    state.no_assignment_to_other_modules,
    state.only_pure_functions_are_cached,
    state.few_runtime_slots,
    journal.storage_changes_are_logged,
    journal.listings_are_dropped_by_few_modules,
    modules.modules_are_short,
    modules.class_names_have_one_meaning,
    modules.tests_replace_no_private_names,
    declarations.settings_have_an_effect,
    declarations.driver_options_have_an_effect,
    documents.documents_name_what_exists,
    documents.documents_are_linked,
    documents.citations_are_pages,
    imports.functions_import_only_what_they_need,
    words.names_are_nouns,
    words.constants_name_what_they_bound,
    words.docstrings_open_with_a_verb_or_noun,
    words.test_names_are_short,
)


def find_violations(project: Project) -> Iterator[str]:
    """Yield each violation as a line with its place, the rule and the reason."""
    for rule in RULES:
        for violation in rule(project):
            yield f"{violation.place}: {rule.__name__}: {violation.text}"
    yield from (f"{place}: exceptions_are_needed: nothing needs {name!r}" for place, name in project.list_unused())

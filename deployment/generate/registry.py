"""The generators of derived files."""

from __future__ import annotations

from deployment.generate import (
    Generator,
    api,
    client,
    command_line,
    deployer,
    events,
    facts,
    limits,
    page,
    settings,
    storages,
    tasks,
)

GENERATORS: tuple[Generator, ...] = (
    facts.generate_facts,
    api.generate_document,
    api.generate_permissions,
    client.generate_client,
    command_line.generate_reference,
    deployer.generate_policy,
    events.generate_samples,
    limits.generate_reference,
    page.generate_enums,
    page.generate_hidden_settings,
    page.generate_kinds,
    page.generate_labels,
    settings.generate_reference,
    storages.generate_forms,
    storages.generate_pages,
    storages.generate_list,
    storages.generate_menu,
    tasks.generate_workers,
    tasks.generate_retries,
)

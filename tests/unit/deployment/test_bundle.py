"""The build is small without the loss of a file that is read, and is measured against its bounds."""

from __future__ import annotations

import ast
import importlib.util
import json
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from deployment import bundle, descriptions
from deployment.bundle import BOUND, LARGE, MB, Size
from deployment.parameters import MACHINE_NAMES, MACHINES
from mangrove.core.aws_calls import RECORDS, SECRETS
from mangrove.standalone import template

LIBRARY = {
    "boto3/data/ec2/2016-11-15/resources-1.json": "{}",
    "some/__init__.py": "VALUE = 1",
    "some/__init__.pyi": "VALUE: int",
    "some/fast.pyx": "",
    "some/__pycache__/old.pyc": "",
    "some/tests/test_some.py": "",
    "some/tests/data.bin": "",
    "some/test/__init__.py": "",
    "some/test/runner.py": "",
    "some-1.dist-info/METADATA": "Name: some\nVersion: 1\n\nA long text",
    "some-1.dist-info/RECORD": "x",
    "some-1.dist-info/entry_points.txt": "[a]",
    "some-1.dist-info/licenses/LICENSE": "MIT",
    "some-1.dist-info/LICENSE.txt": "MIT",
    "some-1.dist-info/sboms/x.json": "{}",
    "bin/some": "#!",
    "pydantic/v1/main.py": "",
}
TRIMMED_FILES = {
    "some/__init__.py",
    "some/test/__init__.py",
    "some/test/runner.py",
    "some-1.dist-info/METADATA",
    "some-1.dist-info/entry_points.txt",
    "some-1.dist-info/licenses/LICENSE",
    "some-1.dist-info/LICENSE.txt",
}


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def list_files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_layer_keeps_what_functions_read(tmp_path: Path) -> None:
    write(tmp_path, LIBRARY)
    bundle.trim(tmp_path)
    assert list_files(tmp_path) == TRIMMED_FILES
    assert (tmp_path / "some-1.dist-info" / "METADATA").read_text() == "Name: some\nVersion: 1\n"
    bundle.trim(tmp_path)
    assert list_files(tmp_path) == TRIMMED_FILES, "what is small already stays as it is"


@pytest.mark.skipif(shutil.which("strip") is None or shutil.which("readelf") is None, reason="binutils are not here")
def test_compiled_libraries_lose_the_symbols_that_only_debuggers_read(tmp_path: Path) -> None:
    source = next(path for path in Path(yaml.__file__).parent.glob("_yaml*.so"))
    library = tmp_path / "some" / source.name
    library.parent.mkdir()
    shutil.copy(source, library)
    broken = tmp_path / "broken.so"
    broken.write_text("no library")
    assert ".symtab" in list_sections(source), "as it is published"
    assert bundle.strip_libraries(tmp_path) == "`strip` cannot read broken.so: they keep their symbols"
    assert ".symtab" not in list_sections(library) and library.stat().st_size < source.stat().st_size
    assert broken.read_text() == "no library"
    load = "import sys; from importlib.util import *; module_from_spec(spec_from_file_location(*sys.argv[1:]))"
    subprocess.run([sys.executable, "-c", load, "yaml._yaml", library], check=True)


def list_sections(library: Path) -> str:
    return subprocess.run(
        ["readelf", "--sections", "--wide", library], capture_output=True, text=True, check=True
    ).stdout


def test_libraries_stay_as_they_are_where_nothing_can_strip_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"a.so": "1", "b.so.2": "2", "c.py": "3"})
    monkeypatch.setenv("PATH", str(tmp_path))
    assert bundle.strip_libraries(tmp_path) == ("2 compiled libraries keep their symbols: there is no program `strip`")
    assert list_files(tmp_path) == {"a.so", "b.so.2", "c.py"}


def find_services() -> set[str]:
    """The services of AWS that the code makes clients of."""
    services = {"dynamodb"} | {service.name for service in (RECORDS, SECRETS)}  # by pynamodb, and by `ServiceClient`
    for root in ("shared", "functions"):
        for file in (template.ROOT / root).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
                if is_call and node.func.attr in ("client", "create_client") and node.args:
                    services |= {
                        str(argument.value) for argument in node.args[:1] if isinstance(argument, ast.Constant)
                    }
    return services


def test_the_services_that_are_kept_are_those_in_use() -> None:
    assert find_services() == descriptions.SERVICES


def test_byte_code_is_valid_for_copies_and_reproducible(tmp_path: Path) -> None:
    compiled = []
    for place in ("here", "there"):
        folder = tmp_path / place
        write(folder, {"some.py": "VALUE = 'compiled'\n", "other/broken.py": "{{ template }}"})
        bundle.compile_sources(folder)
        compiled.append(Path(importlib.util.cache_from_source(str(folder / "some.py"))).read_bytes())
        (folder / "some.py").write_text("VALUE = 'a copy of another time'\n")
        command = [sys.executable, "-c", "import some; print(some.VALUE)"]
        done = subprocess.run(command, env={"PYTHONPATH": str(folder)}, capture_output=True, text=True, check=True)
        assert done.stdout == "compiled\n"
    assert compiled[0] == compiled[1]


def test_a_size_is_that_of_the_files_and_of_their_archive(tmp_path: Path) -> None:
    write(tmp_path, {"a/b.txt": "x" * 100_000, "c.txt": "y"})
    size = bundle.measure(tmp_path)
    assert size.unzipped == 100_001 and 100 < size.zipped < 2_000


def test_a_release_has_another_name_as_soon_as_a_byte_is_another(tmp_path: Path) -> None:
    write(tmp_path, {"f/a": "1", "f/b": "2"})
    first = bundle.find_release([tmp_path / "f"])
    assert first == bundle.find_release([tmp_path / "f"]) and first.isalnum()
    (tmp_path / "f" / "b").write_text("3")
    second = bundle.find_release([tmp_path / "f"])
    (tmp_path / "f" / "b").rename(tmp_path / "f" / "c")
    assert len({first, second, bundle.find_release([tmp_path / "f"])}) == 3


LAYERS = {"Plain": ("Shared",), "Works": ("Shared", "CloudsLayer")}


@pytest.mark.parametrize(
    ("shared", "clouds", "excess"),
    [
        (Size(BOUND.unzipped - MB, BOUND.zipped - MB), LARGE["CloudsLayer"], {"Plain": (), "Works": ()}),
        (Size(BOUND.unzipped, 1), Size(1, 1), {"Plain": ("itself",), "Works": ("itself",)}),
        (Size(1, BOUND.zipped), Size(1, 1), {"Plain": ("itself",), "Works": ("itself",)}),
        (Size(1, 1), Size(LARGE["CloudsLayer"].unzipped + 1, 1), {"Plain": (), "Works": ("CloudsLayer",)}),
    ],
)
def test_what_is_larger_than_its_bound_is_named(shared: Size, clouds: Size, excess: dict[str, tuple[str, ...]]) -> None:
    sizes = {"Shared": shared, "CloudsLayer": clouds, "Plain": Size(MB, MB), "Works": Size(MB, MB)}
    rows = list(bundle.judge(sizes, LAYERS))
    assert {row.name: row.excess for row in rows} == excess
    assert rows[1].size == Size(shared.unzipped + clouds.unzipped + MB, shared.zipped + clouds.zipped + MB), (
        "all of its layers count for what is shown"
    )
    assert ("TOO LARGE" in bundle.show(rows)) == any(excess.values())


@pytest.mark.parametrize("is_native", [True, pytest.param(False, marks=pytest.mark.rest)])  # which installs libraries
def test_the_build_fails_when_something_is_too_large(
    is_native: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number, architecture = next(
        row for row in MACHINES.items() if (row[1] == MACHINE_NAMES[platform.machine()]) == is_native
    )
    build = tmp_path / "build"
    write(build, {"template.yaml": json.dumps(TEMPLATE), "Shared/python/a.py": "1", "Files/app.py": "2"})
    (build / "Shared/python/fast.so").write_bytes(b"\x7fELF" + bytes(14) + number.to_bytes(2, "little"))
    assert bundle.main(build) == 0
    assert len((tmp_path / "release").read_text()) == bundle.RELEASE_LETTERS
    assert (tmp_path / "architecture").read_text() == architecture
    assert {"Shared/python/__pycache__", "Files/__pycache__"} <= {
        str(path.parent.relative_to(build)) for path in build.rglob("*.pyc")
    }
    monkeypatch.setattr(bundle, "BOUND", Size(1, 1))
    assert bundle.main(build) == 1


TEMPLATE = {
    "Globals": {
        "Function": {
            "Layers": [{"Ref": "Shared"}],
            "Environment": {"Variables": {"MANGROVE_TABLES": {"Fn::Sub": "users=${Users}"}}},
        }
    },
    "Resources": {
        "Files": {"Type": "AWS::Serverless::Function", "Properties": {}},
        "Shared": {"Type": "AWS::Serverless::LayerVersion", "Properties": {}},
    },
}


def read_layers() -> dict[str, set[str]]:
    return {name: set(layers) for name, layers in bundle.find_layers(template.load_template()).items()}


def test_only_file_functions_have_the_cloud_library() -> None:
    working = {"StoragesFunction"}  # which has the forms of all drivers
    for name, function in template.iter_resources("AWS::Serverless::Function"):
        for policy in function["Properties"]["Policies"]:
            if any(
                "${Files.Arn}" in str(statement) or "Files.Arn" in str(statement)
                for statement in policy.get("Statement", ())
            ):
                working.add(name)
    working -= {"SearchFunction", "BucketEventsFunction"}  # they use the bucket itself
    assert {name for name, layers in read_layers().items() if "CloudsLayer" in layers} == working


def test_functions_that_keep_indexes_have_the_database_and_no_other_has() -> None:
    owners = {"SearchFunction", "McpFunction", "IndexWalk", "IndexPart", "IndexSettle"}
    assert {name for name, layers in read_layers().items() if "SearchLayer" in layers} == owners


def test_function_that_signs_in_has_its_libraries_and_no_other_has() -> None:
    assert {name for name, layers in read_layers().items() if "SignInLayer" in layers} == {"AuthFunction"}


def test_layer_loses_what_the_layer_of_all_functions_has(tmp_path: Path) -> None:
    common, layer = tmp_path / "common", tmp_path / "layer"
    files = {"some/deep/a.py": "", "some/b.py": "", "_some.so": "", "other/c.py": "", "other-1.dist-info/METADATA": ""}
    files["some-1.dist-info/RECORD"] = (
        "some/deep/a.py,,\nsome/b.py,,\n_some.so,,\n../bin/x,,\nsome-1.dist-info/RECORD,,\n"
    )
    for name, text in files.items():
        (layer / name).parent.mkdir(parents=True, exist_ok=True)
        (layer / name).write_text(text)
    (common / "some-1.dist-info").mkdir(parents=True)
    (common / "other-2.dist-info").mkdir()
    bundle.remove_common(layer, common)
    assert {path.relative_to(layer).as_posix() for path in layer.rglob("*") if path.is_file()} == {
        "other/c.py",
        "other-1.dist-info/METADATA",
    }
    assert not (layer / "some").exists()

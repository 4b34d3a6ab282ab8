#!/usr/bin/env python3
"""Writes ports/ from what the libraries' CMakeLists.txt declare.

A port must be self-contained, so the eleven of them repeat each other; they are generated in order to
agree with each other and with the libraries. `generate.py` writes, `generate.py --check` compares.
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

DESCRIPTIONS = {
    "base": "Errors, digests, ids, files, processes and logging for the Kiln libraries",
    "ir": "Typed functional tensor graphs with a text form, a verifier and common passes",
    "autograd-cache": "Content-addressed cache for compiled programs, knowing only bytes",
    "container-runtime": "Loads and runs AOTInductor model libraries, and what is inside them",
    "capture": "Records a running libtorch program as a graph, and replays graphs",
    "partitioner": "Splits a joint graph into forward and backward by minimum cut",
    "codegen": "Turns tensor graphs into fused CPU and CUDA source and compiles it",
    "export": "Front ends for C++ functions, modules, TorchScript and .pt2 archives",
    "autograd-dispatch": "Joint forward and backward graphs behind one autograd node",
    "jit": "Just-in-time compilation of C++ functions and modules: guards, versions, a cache",
    "kiln": "torch.compile and AOTInductor for C++ programs: the facade over the Kiln libraries",
}

# Keys of cmake/KilnDependencies.cmake; None comes with the compiler.
PORT_OF_PACKAGE = {
    "Boost": "boost-graph",
    "CLI11": "cli11",
    "OpenMP": None,
    "OpenSSL": "openssl",
    "TBB": "tbb",
    "Threads": None,
    "Torch": "libtorch",
    "ZLIB": "zlib",
    "nlohmann_json": "nlohmann-json",
    "zstd": "zstd",
}

PORTFILE = """\
if(NOT EXISTS "${{CURRENT_PORT_DIR}}/../../libs/{library}/CMakeLists.txt")
    message(FATAL_ERROR "{port} builds from a checkout of the kiln workspace: --overlay-ports=<checkout>/ports")
endif()
get_filename_component(SOURCE_PATH "${{CURRENT_PORT_DIR}}/../.." ABSOLUTE)

vcpkg_cmake_configure(
    SOURCE_PATH "${{SOURCE_PATH}}/libs/{library}"
    OPTIONS -DKILN_BUILD_TESTS=OFF
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/{port} PACKAGE_NAME {port})

file(REMOVE_RECURSE "${{CURRENT_PACKAGES_DIR}}/debug/include" "${{CURRENT_PACKAGES_DIR}}/debug/share")
file(INSTALL "${{CURRENT_PORT_DIR}}/usage" DESTINATION "${{CURRENT_PACKAGES_DIR}}/share/${{PORT}}")
vcpkg_install_copyright(FILE_LIST "${{SOURCE_PATH}}/LICENSE")
"""

USAGE = """\
{port} provides a CMake target:

    find_package({port} CONFIG REQUIRED)
    target_link_libraries(main PRIVATE kiln::{library})
"""

TORCH_USAGE = """
It stands on libtorch, whose package needs C as well as CXX: project(main LANGUAGES C CXX).
"""


def library_names() -> list[str]:
    """The libraries in dependency order, as libs/CMakeLists.txt lists them."""
    text = (ROOT / "libs/CMakeLists.txt").read_text()
    return re.search(r"set\(libraries\s+([^)]*)\)", text).group(1).split()


def version() -> str:
    return re.search(r"set\(KILN_VERSION ([\d.]+)\)", (ROOT / "cmake/Kiln.cmake").read_text()).group(1)


def declared(library: str) -> tuple[list[str], list[str]]:
    """The siblings and the third-party packages that kiln_library(...) names."""
    text = re.sub(r"#.*", "", (ROOT / "libs" / library / "CMakeLists.txt").read_text())
    call = re.search(r"kiln_library\(([^)]*)\)", text).group(1)
    siblings = re.findall(r"kiln::([\w-]+)", call)
    packages = re.search(r"\bPACKAGES\s+([\w\s]+?)(?=\n\s*[A-Z_]{4,}\s|$)", call.rstrip())
    return siblings, packages.group(1).split() if packages else []


def port_name(library: str) -> str:
    return library if library == "kiln" else f"kiln-{library}"


def files_of(library: str) -> dict[str, str]:
    siblings, packages = declared(library)
    needed = [PORT_OF_PACKAGE[package] for package in packages]
    dependencies = sorted([port_name(s) for s in siblings] + [n for n in needed if n])
    manifest = {
        "name": port_name(library),
        "version-semver": version(),
        "description": DESCRIPTIONS[library],
        "license": "MIT",
        "dependencies": dependencies
        + [{"name": "vcpkg-cmake", "host": True}, {"name": "vcpkg-cmake-config", "host": True}],
    }
    names = {"library": library, "port": port_name(library)}
    needs_torch = "libtorch" in needed
    return {
        "vcpkg.json": json.dumps(manifest, indent=2) + "\n",
        "portfile.cmake": PORTFILE.format(**names),
        "usage": USAGE.format(**names) + (TORCH_USAGE if needs_torch else ""),
    }


def stale_files(libraries: list[str]) -> list[tuple[Path, str]]:
    """The files of ports/ that differ from what the libraries declare, with what they should hold."""
    stale = []
    for library in libraries:
        for name, text in files_of(library).items():
            path = ROOT / "ports" / port_name(library) / name
            if not path.is_file() or path.read_text() != text:
                stale.append((path, text))
    return stale


def main() -> int:
    stale = stale_files(library_names())
    if "--check" in sys.argv:
        for path, _ in stale:
            print(f"{path.relative_to(ROOT)} is stale: run tests/ports/generate.py", file=sys.stderr)
        return 1 if stale else 0
    for path, text in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

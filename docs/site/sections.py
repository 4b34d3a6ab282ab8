"""What stands where in the site's navigation. A document that is in no section stops the build of the site."""

SECTIONS = {
    "Start": ["docs/tutorial.md", "docs/migrating.md", "docs/names.md", "docs/comparison.md", "docs/performance.md"],
    "How to": ["docs/how-to/README.md"],
    "Concepts": [
        "docs/architecture.md", "docs/tracing.md", "docs/dynamic-shapes.md", "docs/export.md",
        "docs/autograd-dispatch.md", "docs/partitioner.md", "docs/ir.md", "docs/codegen.md", "docs/cuda.md",
        "docs/new-backend.md", "docs/container-abi.md", "docs/cache-format.md", "docs/compatibility.md",
        "docs/versioning.md",
    ],
    "Libraries": [
        f"libs/{library}/README.md"
        for library in ("kiln", "jit", "export", "capture", "autograd-dispatch", "partitioner", "codegen",
                        "container-runtime", "autograd-cache", "ir", "base")
    ],
    "Examples": ["examples/README.md"],
    "Project": ["CONTRIBUTING.md", "docs/testing.md", "docs/style.md", "CHANGELOG.md", "SECURITY.md",
                "CODE_OF_CONDUCT.md"],
}

# Pages below another one: every page of the folder.
FOLDERS = {
    "docs/how-to/README.md": "docs/how-to",
    "docs/migrating.md": "docs/migrating",
    "examples/README.md": "examples",
}

REFERENCE = "docs/reference.md"

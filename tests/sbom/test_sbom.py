"""Compares the example of a package's bill of materials, which a test of crates/package writes, with the official schema.

The last line is `N passed, N failed`.
"""

import pathlib
import sys

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

EXAMPLE = pathlib.Path(__file__).parent / "../../crates/package/tests/example.cdx.json"

validator = JsonStrictValidator(SchemaVersion.V1_6)
error = validator.validate_str(EXAMPLE.read_text())
# What the schema must refuse, so that the check itself is checked.
wrong = validator.validate_str(EXAMPLE.read_text().replace('"container"', '"box"'))
if error:
    print("the example does not fit to the schema:", error)
if not wrong:
    print("a wrong example fits to the schema")
failed = bool(error) + (not wrong)
print(f"{2 - failed} passed, {failed} failed")
sys.exit(1 if failed else 0)

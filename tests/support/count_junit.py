"""Print "passed failed" of a JUnit report; a skipped case counts as neither."""

import sys
import xml.etree.ElementTree as ElementTree

passed = failed = 0
for case in ElementTree.parse(sys.argv[1]).iter("testcase"):
    outcomes = {child.tag for child in case}
    if outcomes & {"failure", "error"}:
        failed += 1
    elif "skipped" not in outcomes:
        passed += 1
print(passed, failed)

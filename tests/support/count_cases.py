"""Print "passed failed skipped" of a report: Boost.Test's short XML or pytest's JUnit."""

import sys
import xml.etree.ElementTree as ElementTree


def boost_counts(suite: ElementTree.Element) -> tuple[int, int, int]:
    """Cases of a Boost.Test report's outermost suite."""
    count = {key: int(value) for key, value in suite.attrib.items() if key.startswith("test_cases_")}
    passed = count["test_cases_passed"] + count.get("test_cases_passed_with_warnings", 0)
    failed = count["test_cases_failed"] + count.get("test_cases_aborted", 0) + count.get("test_cases_timed_out", 0)
    return passed, failed, count.get("test_cases_skipped", 0)


def junit_counts(root: ElementTree.Element) -> tuple[int, int, int]:
    """Cases of a JUnit report."""
    passed = failed = skipped = 0
    for case in root.iter("testcase"):
        outcomes = {child.tag for child in case}
        if outcomes & {"failure", "error"}:
            failed += 1
        elif "skipped" in outcomes:
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


root = ElementTree.parse(sys.argv[1]).getroot()
suite = root.find("TestSuite") if root.tag == "TestResult" else None
print(*(boost_counts(suite) if suite is not None else junit_counts(root)))

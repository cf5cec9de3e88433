// The entry point of every test binary.
#define BOOST_TEST_MODULE heteroserve
#include <boost/test/unit_test.hpp>

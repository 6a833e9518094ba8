#include "colibri/text/text_index.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace colibri::text;

TEST_CASE("texts are found by their bytes, however many there are") {
    text_pool pool;
    text_index index;
    CHECK(index.find(pool, "a") == text_index::none);
    for (int i = 0; i < 20000; ++i) {
        pool.add(std::to_string(i * 7));
        CHECK(index.insert(pool, i) == text_index::none);
    }
    pool.add("7");
    CHECK(index.insert(pool, 20000) == 1);  // there already: the first one stays
    pool.add("");
    CHECK(index.insert(pool, 20001) == text_index::none);
    CHECK(index.find(pool, "") == 20001);
    for (int i = 0; i < 20000; ++i) CHECK(index.find(pool, std::to_string(i * 7)) == i);
    CHECK(index.find(pool, "8") == text_index::none);
    CHECK(pool[3] == "21");
    CHECK(pool.size() == 20002);
}

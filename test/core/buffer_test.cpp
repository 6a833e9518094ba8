#include "colibri/core/buffer.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <utility>

using namespace colibri;

TEST_CASE("buffers are zeroed, aligned and of the size asked for") {
    for (const std::size_t bytes :
         {std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{65}, std::size_t{4096}, std::size_t{100000},
          (std::size_t{4} << 20) - 1, std::size_t{4} << 20, (std::size_t{4} << 20) + 1, std::size_t{13} << 20}) {
        auto buffer = aligned_buffer::allocate(bytes);
        REQUIRE(buffer);
        REQUIRE(buffer->size() == bytes);
        const auto address = reinterpret_cast<std::uintptr_t>(buffer->data());
        CHECK(address % 64 == 0);
        if (bytes >= std::size_t{4} << 20) CHECK(address % (std::size_t{2} << 20) == 0);
        bool zero = true;
        for (std::size_t i = 0; i < bytes; ++i) zero = zero && buffer->data()[i] == std::byte{0};
        CHECK(zero);
        buffer->data()[0] = std::byte{1};
        buffer->data()[bytes - 1] = std::byte{2};  // the sanitizers would see a byte too few
    }
}

TEST_CASE("an empty buffer has no memory, an absurd one is refused") {
    auto empty = aligned_buffer::allocate(0);
    REQUIRE(empty);
    CHECK(empty->size() == 0);
    CHECK(empty->data() == nullptr);
    for (const std::size_t absurd : {~std::size_t{0}, ~std::size_t{0} - 4096, std::size_t{1} << 62}) {
        auto refused = aligned_buffer::allocate(absurd);
        REQUIRE(!refused);
        CHECK(refused.error().code == errc::out_of_memory);
    }
}

TEST_CASE("buffers move, small and large") {
    for (const std::size_t bytes : {std::size_t{100}, std::size_t{5} << 20}) {
        auto first = aligned_buffer::allocate(bytes).value();
        first.as<std::uint32_t>()[3] = 42;
        aligned_buffer second = std::move(first);
        CHECK(first.data() == nullptr);
        CHECK(first.size() == 0);
        CHECK(second.as<std::uint32_t>()[3] == 42);
        auto third = aligned_buffer::allocate(7).value();
        third = std::move(second);
        CHECK(std::as_const(third).as<std::uint32_t>()[3] == 42);
        CHECK(third.size() == bytes);
        aligned_buffer& same = third;
        third = std::move(same);
        CHECK(third.as<std::uint32_t>()[3] == 42);
        CHECK(third.as<std::uint32_t>().size() == bytes / 4);
    }
}

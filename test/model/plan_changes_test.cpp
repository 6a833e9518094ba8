#include "colibri/model/plan_changes.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "support/tiny_models.hpp"

using namespace colibri;

namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

model header(const std::string& name) {
    auto opened = model::open_header(tiny::path(name));
    REQUIRE_MESSAGE(opened, (opened ? std::string() : opened.error().text()));
    return *std::move(opened);
}

const changed_plan* find(const std::vector<changed_plan>& all, plan_change what) {
    const auto at = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.what == what; });
    return at == all.end() ? nullptr : &*at;
}

}  // namespace

TEST_CASE("plan changes: the smallest budget works, and less doesn't") {
    const auto m = header("llama");
    memory_request request;
    request.process = 50 * mib;
    request.use.threads = 1;
    request.use.context = 4096;
    for (const auto how : {weights::holding::automatic, weights::holding::streamed, weights::holding::resident}) {
        CAPTURE(weights::name(how));
        request.how = how;
        request.memory = 0;
        const auto least = smallest_budget(m, request);
        REQUIRE(least > 0);
        CHECK(least % mib == 0);
        request.memory = least;
        auto plan = plan_memory(m, request);
        REQUIRE(plan);
        CHECK(can_run(*plan));
        request.memory = least - mib;
        plan = plan_memory(m, request);
        CHECK((!plan || !can_run(*plan)));
    }
}

TEST_CASE("plan changes: each is planned anew") {
    const auto m = header("llama-rope-llama3");  // its heads are whole blocks of q8_0
    memory_request request;
    request.process = 50 * mib;
    request.use.threads = 1;
    request.use.context = 4096;
    request.how = weights::holding::streamed;
    request.memory = smallest_budget(m, request);
    const auto now = plan_memory(m, request);
    REQUIRE(now);
    const auto all = plan_changes(m, request, *now);
    const auto* context = find(all, plan_change::context);
    REQUIRE(context != nullptr);
    CHECK(context->value == 2048);
    CHECK(context->plan.context == 2048);
    CHECK(context->plan.kv * 2 == now->kv);
    CHECK(context->plan.budget == now->budget);
    const auto* memory = find(all, plan_change::memory);
    REQUIRE(memory != nullptr);
    CHECK(memory->value == now->budget + now->budget / 4);
    CHECK(memory->plan.budget == memory->value);
    const auto* cache = find(all, plan_change::cache_type);
    REQUIRE(cache != nullptr);
    CHECK(cache->use.cache_k == kv_type::q8_0);
    CHECK(cache->use.cache_v == kv_type::q8_0);
    CHECK(cache->plan.kv * 64 == now->kv * 34);  // 32 values in 34 bytes instead of 64

    // Heads of 16 values are none.
    const auto small = header("llama");
    CHECK(find(plan_changes(small, request, *now), plan_change::cache_type) == nullptr);

    // Nothing to gain from what is there already.
    request.how = weights::holding::resident;
    request.use.context = 512;
    request.use.cache_k = kv_type::q8_0;
    request.use.cache_v = kv_type::q4_0;
    request.memory = 1024 * mib;
    const auto large = plan_memory(m, request);
    REQUIRE(large);
    const auto few = plan_changes(m, request, *large);
    CHECK(find(few, plan_change::context) == nullptr);
    CHECK(find(few, plan_change::cache_type) == nullptr);
    CHECK(find(few, plan_change::memory) == nullptr);
}

TEST_CASE("plan changes: the next smaller quantisation saves at least 15 %") {
    using colibri::detail::smaller_quantisation;
    CHECK(smaller_quantisation(32.0) == dtype::q8_0);
    CHECK(smaller_quantisation(16.0) == dtype::q8_0);
    CHECK(smaller_quantisation(8.5) == dtype::q6_k);
    CHECK(smaller_quantisation(6.5625) == dtype::q5_k);
    CHECK(smaller_quantisation(5.5) == dtype::q4_k);
    CHECK(smaller_quantisation(4.85) == dtype::q3_k);
    CHECK(!smaller_quantisation(3.5));
}

TEST_CASE("plan changes: a gain is that of the speed, else of the disk's bytes, else of memory's") {
    sweep_cost now, then;
    now.memory_bytes = 100.0;
    then.memory_bytes = 50.0;
    now.known = then.known = false;
    CHECK(gain(now, then) == 2.0);
    now.disk_bytes = 90.0;
    then.disk_bytes = 30.0;
    CHECK(gain(now, then) == 3.0);
    now.known = then.known = true;
    now.expected = 5.0;
    then.expected = 1.25;
    CHECK(gain(now, then) == 4.0);
}

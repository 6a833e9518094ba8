// Tells how likely a model finds a text, token by token: score_text MODEL.gguf TEXT
#include <cmath>
#include <colibri/colibri.hpp>
#include <iostream>

int main(int argc, char** argv) try {
    if (argc != 3) {
        std::cerr << "usage: score_text MODEL.gguf TEXT\n";
        return 1;
    }
    const auto model = colibri::model::open(argv[1]).value();
    const auto& tokenizer = model.tokenizer();
    const auto tokens = tokenizer.encode(argv[2]);
    auto session = colibri::session::make(model).value();

    double sum = 0.0;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        if (i > 0) {  // what the tokens before it say of this one
            double total = 0.0;
            const auto logits = session.logits();
            const auto own = logits[static_cast<std::size_t>(tokens[i])];
            for (const float logit : logits) total += std::exp(static_cast<double>(logit - own));
            sum -= std::log(total);
            std::cout << colibri::quoted(tokenizer.bytes(tokens[i])) << ' ' << colibri::concat(-std::log(total)) << '\n';
        }
        // Only the new token is evaluated: the others are in the cache.
        session.prompt(std::span(tokens).first(i + 1)).value();
    }
    if (tokens.size() < 2) {
        std::cerr << "the text is too short: one token has nothing before it\n";
        return 1;
    }
    std::cout << "perplexity " << colibri::concat(std::exp(-sum / static_cast<double>(tokens.size() - 1))) << '\n';
} catch (const colibri::exception& failure) {
    std::cerr << failure.what() << '\n';
    return 2;
}

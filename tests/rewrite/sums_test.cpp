// SPDX-License-Identifier: Apache-2.0
// Sums over tokens in plans whose loss is made in chunks: gradients with one summand inside the
// loop over chunks and another outside, and numbers that are computed from sums.
#include <coda/error.h>
#include <gtest/gtest.h>

#include <string>

#include "rewrite/check_graph.h"

namespace coda::test {
namespace {

constexpr int64_t kWidth = 12, kVocabulary = 33;

/// 13 tokens in 1, 2, 3 and 13 chunks, the last one shorter; upstreams known before and after.
void check_in_chunks(const Graph& graph, GraphCheck check) {
  check.tokens = 13;
  check.vocabulary = check.chunk_columns = kVocabulary;
  for (int64_t rows : {13, 7, 5, 1})
    for (bool late : {false, true}) {
      SCOPED_TRACE("chunks of " + std::to_string(rows) + (late ? ", late" : ""));
      check.chunk_rows = rows;
      check.late = late;
      bool looped = late;  // logits made again may be made as a whole, as part of a wider product
      for (const rewrite::Buffer& buffer : check_graph(graph, check).buffers)
        looped = looped || buffer.chunked;
      EXPECT_TRUE(looped);
    }
}

Value loss_of(GraphBuilder& g, Value logits) {
  return total(cross_entropy(logits, g.tokens("labels")));
}

TEST(Sums, of_a_norm_weight_used_in_the_loss_and_before_it) {
  GraphBuilder g("shared_norm");
  const Value x = g.activations("x", kWidth), w = g.vector("w", kWidth);
  const Value y = x + matmul(rms_norm(x, w, 1e-5), g.weight("inner", kWidth, kWidth));
  g.output("loss", loss_of(g, matmul(rms_norm(y, w, 1e-5), g.weight("head", kVocabulary, kWidth))));
  GraphCheck check;
  check.of = {"loss"};
  check.wrt = {"x", "w", "inner", "head"};
  check_in_chunks(g.build(), check);
}

TEST(Sums, of_a_layer_norm_used_in_the_loss_and_twice_before_it) {
  GraphBuilder g("shared_layer_norm");
  const Value w = g.vector("w", kWidth), b = g.vector("b", kWidth);
  Value x = g.activations("x", kWidth);
  for (const char* name : {"first", "second"})
    x = x + matmul(layer_norm(x, w, b, 1e-5), g.weight(name, kWidth, kWidth));
  g.output("loss",
           loss_of(g, matmul(layer_norm(x, w, b, 1e-5), g.weight("head", kVocabulary, kWidth))));
  GraphCheck check;
  check.of = {"loss"};
  check_in_chunks(g.build(), check);
}

/// One weight for heads of matrices of two widths: its summands are sums of their own.
TEST(Sums, of_a_head_norm_used_in_the_loss_and_at_another_width) {
  for (bool before : {true, false}) {
    GraphBuilder g("shared_head_norm");
    const Value w = g.vector("w", kWidth / 2), x = g.activations("x", 2 * kWidth);
    const Value y = head_norm(matmul(x, g.weight("in", kWidth, 2 * kWidth)), w, 1e-5);
    const Value z = before ? x + matmul(y, g.weight("out", 2 * kWidth, kWidth)) : 1.0 * x;
    if (!before) g.output("y", y);
    g.output("loss",
             loss_of(g, matmul(head_norm(z, w, 1e-5), g.weight("head", kVocabulary, 2 * kWidth))));
    GraphCheck check;
    check.of = {"loss"};
    if (!before) check.of.emplace_back("y");
    check_in_chunks(g.build(), check);
  }
}

TEST(Sums, of_a_bias_of_logits_and_of_an_output) {
  GraphBuilder g("shared_bias");
  const Value x = g.activations("x", kWidth), bias = g.vector("bias", kVocabulary);
  g.output("scores", bias + matmul(tanh(x), g.weight("other", kVocabulary, kWidth)));
  g.output("loss", loss_of(g, bias + matmul(x, g.weight("head", kVocabulary, kWidth))));
  GraphCheck check;
  check.of = {"loss", "scores"};
  check_in_chunks(g.build(), check);
}

TEST(Sums, of_an_embedding_that_is_the_head_as_well) {
  for (bool norm : {false, true}) {
    GraphBuilder g("tied");
    const Value table = g.weight("table", kVocabulary, kWidth);
    Value x = embedding(g.tokens("ids"), table);
    if (norm) x = rms_norm(x + sin(x), g.vector("w", kWidth), 1e-5);
    g.output("loss", loss_of(g, matmul(x, table)));
    GraphCheck check;
    check.of = {"loss"};
    check_in_chunks(g.build(), check);
  }
}

TEST(Sums, of_a_head_used_for_two_losses) {
  GraphBuilder g("two_losses");
  const Value head = g.weight("head", kVocabulary, kWidth);
  const Value x = g.activations("x", kWidth);
  const Value y = x + tanh(matmul(x, g.weight("next", kWidth, kWidth)));
  const Value labels = g.tokens("labels"), next_labels = g.tokens("next_labels");
  g.output("loss", total(cross_entropy(matmul(x, head), labels)));
  g.output("next_loss", total(cross_entropy(matmul(y, head), next_labels)));
  GraphCheck check;
  check.of = {"loss", "next_loss"};
  check.wrt = {"x", "head", "next"};
  check_in_chunks(g.build(), check);
}

/// The outer use of the head comes before or after the loss in the graph, at several depths.
TEST(Sums, of_a_head_used_in_the_loss_and_outside) {
  for (bool first : {false, true})
    for (int depth : {0, 1, 3}) {
      SCOPED_TRACE(std::to_string(depth) + (first ? " products, first" : " products, last"));
      GraphBuilder g("outside");
      const Value head = g.weight("head", kVocabulary, kWidth), x = g.activations("x", kWidth);
      Value y = sin(x);
      for (int i = 0; i < depth; ++i)
        y = y + tanh(matmul(y, g.weight("w" + std::to_string(i), kWidth, kWidth)));
      const auto scores = [&] { g.output("scores", tanh(matmul(y, head))); };
      if (first) scores();
      g.output("loss", loss_of(g, matmul(x, head)));
      if (!first) scores();
      GraphCheck check;
      check.of = first ? std::vector<std::string>{"scores", "loss"}
                       : std::vector<std::string>{"loss", "scores"};
      check.wrt = {"x", "head"};
      try {
        check_in_chunks(g.build(), check);
      } catch (const Error& error) {  // a step that is no part of the loop would be in between
        EXPECT_NE(std::string(error.what()).find("keep the head to the loss"), std::string::npos);
      }
    }
}

TEST(Sums, of_a_matrix_used_in_the_loss_and_outside) {
  GraphBuilder g("matrix");
  const Value x = g.activations("x", kWidth);
  const Value h = rms_norm(x, g.vector("w", kWidth), 1e-5);
  g.output("loss", loss_of(g, matmul(h, g.weight("head", kVocabulary, kWidth))));
  g.output("y", x + tanh(matmul(h, g.weight("inner", kWidth, kWidth))));
  g.output("size", total(h * h));
  GraphCheck check;
  check.of = {"loss", "y", "size"};
  check.wrt = {"x", "w", "head", "inner"};
  check_in_chunks(g.build(), check);
}

/// A head with a low-rank sum beside it, its own weight frozen: the sum is in the loss and learns.
TEST(Sums, of_a_low_rank_head) {
  GraphBuilder g("low_rank");
  const Value h = rms_norm(g.activations("x", kWidth), g.vector("w", kWidth), 1e-5);
  const Value low = matmul(h, g.weight("a", 4, kWidth));
  g.output("loss", loss_of(g, matmul(h, g.weight("head", kVocabulary, kWidth)) +
                                  0.5 * matmul(low, g.weight("b", kVocabulary, 4))));
  GraphCheck check;
  check.of = {"loss"};
  check.wrt = {"x", "a", "b"};
  check_in_chunks(g.build(), check);
}

/// What is computed from sums over tokens is computed once, from sums over all of them.
TEST(Sums, that_numbers_are_computed_from) {
  GraphBuilder g("computed");
  const Value x = g.activations("x", kWidth), w = g.vector("w", kWidth);
  const Value logits = matmul(x, g.weight("head", kVocabulary, kWidth));
  const Value each = cross_entropy(logits, g.tokens("labels"));
  g.output("loss", total(each));
  g.output("root", sqrt(total(each)) + 1.0);
  g.output("size", total(w * w));
  g.output("ratio", total(each) / total(logits * logits));
  GraphCheck check;
  check.of = {"loss"};
  check.wrt = {"x", "head"};
  check.tokens = 13;
  check.vocabulary = check.chunk_columns = kVocabulary;
  for (int64_t rows : {13, 5}) {
    check.chunk_rows = rows;
    check_graph(g.build(), check);
  }
}

/// Gradients of a loss that is divided by a sum over tokens need that sum for every chunk.
TEST(Sums, that_gradients_divide_by) {
  for (bool inside : {false, true}) {
    GraphBuilder g("divided");
    const Value x = g.activations("x", kWidth), weights = g.token_scalars("token_weights");
    const Value logits = matmul(x, g.weight("head", kVocabulary, kWidth));
    const Value each = cross_entropy(logits, g.tokens("labels")) * weights;
    g.output("loss", total(each) / total(inside ? weights * logits * logits : weights * weights));
    GraphCheck check;
    check.of = {"loss"};
    check.wrt = {"x", "head"};
    check.vocabulary = kVocabulary;
    check_graph(g.build(), check);  // without chunks
    rewrite::Options chunks;
    chunks.of = check.of, chunks.wrt = check.wrt;
    chunks.chunk_columns = kVocabulary, chunks.chunk_rows = 5;
    std::string what;
    try {
      rewrite::rewrite(g.build().ir(), chunks);
    } catch (const Error& error) {
      what = error.what();
    }
    if (what.empty()) {
      check.chunk_columns = kVocabulary, check.chunk_rows = 5;
      check_graph(g.build(), check);
    } else {
      EXPECT_NE(what.find("make the divisor of the loss an input"), std::string::npos) << what;
    }
  }
}

}  // namespace
}  // namespace coda::test

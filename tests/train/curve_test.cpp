// SPDX-License-Identifier: Apache-2.0
// The curve of a run: plots that hold their size and show where the losses are whatever these are,
// and metrics that survive a crash and a resume.
#include "train/curve.h"

#include <coda/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/folder.h"
#include "train/random.h"

namespace coda::train {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing refused";
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// Characters, not bytes.
int width_of(const std::string& line) {
  return static_cast<int>(
      std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

int count_of(const std::string& text, std::string_view part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
    ++count;
  return count;
}

Curve falling() {
  Curve curve;
  for (int step = 0; step <= 40; ++step) curve.train.push_back({step * 1.0, 9 - 0.15 * step});
  curve.held_out = {{0, 8}, {20, 7}, {40, 4}};
  return curve;
}

TEST(TerminalPlot, ShowsWhereTheLossesAre) {
  EXPECT_EQ(terminal_plot(falling(), {.columns = 43, .rows = 9, .ascii = true}),
            "loss * train  o held-out\n"
            "10 +                                       \n"
            "   |****                                   \n"
            " 8 +o   ******                             \n"
            "   |          ******   o                   \n"
            " 6 +                *******                \n"
            "   |                       ******          \n"
            " 4 +                             ******   o\n"
            "   |                                   ****\n"
            " 2 +                                       \n"
            "   +---------------------------------------\n"
            "    0                 20                 40\n");
}

TEST(TerminalPlot, ShowsFourByTwoDotsPerCharacter) {
  Curve curve;
  curve.train = {{0, 0}, {73, 0}, {74, 10}, {75, 10}};
  // 38 characters have 76 dots side by side, one for each step; the rise is a line of dots.
  const auto lines = lines_of(terminal_plot(curve, {.columns = 42, .rows = 4}));
  ASSERT_EQ(lines.size(), 7u);
  const std::string blank(37, ' ');
  EXPECT_EQ(lines[1], "10 ┤" + blank + "⡏");
  EXPECT_THAT(lines[2], ::testing::EndsWith(blank + "⡇"));
  EXPECT_THAT(lines[3], ::testing::EndsWith(blank + "⡇"));
  std::string flat;
  for (int i = 0; i < 37; ++i) flat += "⣀";
  EXPECT_EQ(lines[4], " 0 ┤" + flat + "⠇");
}

TEST(TerminalPlot, HoldsItsSize) {
  Random random(1);
  for (const bool ascii : {false, true})
    for (const int columns : {40, 41, 72, 133, 1000})
      for (const int rows : {4, 5, 12, 31, 200})
        for (const double scale : {1e-30, 1e-5, 1.0, 1e7, 1e29})
          for (const size_t count : {1, 2, 3, 100, 2001}) {
            Curve curve;
            for (size_t i = 0; i < count; ++i)
              curve.train.push_back({static_cast<double>(7 * i), scale * random.uniform()});
            curve.held_out = {curve.train.back()};
            const auto lines =
                lines_of(terminal_plot(curve, {.columns = columns, .rows = rows, .ascii = ascii}));
            ASSERT_EQ(lines.size(), static_cast<size_t>(rows) + 3);
            for (const std::string& line : lines) ASSERT_LE(width_of(line), columns);
            for (size_t i = 1; i + 1 < lines.size(); ++i) ASSERT_EQ(width_of(lines[i]), columns);
            if (!ascii) continue;
            for (const std::string& line : lines)
              for (const char c : line) ASSERT_TRUE(c >= ' ' && c <= '~');
          }
}

TEST(TerminalPlot, LeavesAGapWhereALossIsNotFinite) {
  Curve curve = falling();
  curve.held_out.clear();
  const PlotOptions options = {.columns = 44, .rows = 9, .ascii = true};
  const int whole = count_of(terminal_plot(curve, options), "*");
  for (int step = 10; step < 16; ++step)
    curve.train[static_cast<size_t>(step)].loss = step % 3 == 0   ? NAN
                                                  : step % 3 == 1 ? INFINITY
                                                                  : -1e300;
  const std::string text = terminal_plot(curve, options);
  EXPECT_THAT(text, HasSubstr("(6 not finite)"));
  EXPECT_EQ(count_of(text, "*"), whole - 6);
  for (CurvePoint& point : curve.train) point.loss = NAN;
  EXPECT_EQ(terminal_plot(curve, options), "no loss to plot (41 not finite)\n");
  EXPECT_EQ(terminal_plot({}, options), "no loss to plot\n");
}

TEST(TerminalPlot, TakesAnyNumbers) {
  const double losses[] = {0,    -0.0,  5e-324, 1e-300, 1,       1 + 1e-15,
                           1e30, -1e30, 1e308,  NAN,    INFINITY};
  const double steps[] = {0, 1, 2, 1e9, 1e9 + 1, 0x1p60, 0x1p60 + 256, 0x1p63, NAN, INFINITY};
  for (const double a : losses)
    for (const double b : losses)
      for (const double first : steps)
        for (const double second : steps) {
          const Curve curve = {{{first, a}, {second, b}}, {{second, a}}};
          for (const bool ascii : {false, true})
            for (const std::string& line : lines_of(terminal_plot(curve, {.ascii = ascii})))
              ASSERT_LE(width_of(line), 72) << a << " " << b << " " << first << " " << second;
          const std::string svg = svg_plot(curve, "t");
          ASSERT_THAT(svg.substr(svg.find("<rect")), Not(HasSubstr("nan")));
          ASSERT_THAT(svg, Not(HasSubstr("inf")));
        }
}

TEST(TerminalPlot, RefusesSizesOutOfRange) {
  for (const int columns : {39, 1001, -1})
    EXPECT_EQ(refusal([&] { terminal_plot(falling(), {.columns = columns}); }),
              "plot: columns: expected 40 to 1000, got " + std::to_string(columns) +
                  "; fix: correct the value");
  for (const int rows : {3, 201})
    EXPECT_EQ(
        refusal([&] { terminal_plot(falling(), {.rows = rows}); }),
        "plot: rows: expected 4 to 200, got " + std::to_string(rows) + "; fix: correct the value");
}

TEST(SvgPlot, HasAxesLabelsAndBothSeries) {
  const std::string svg = svg_plot(falling(), "a run");
  EXPECT_THAT(svg, ::testing::StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox="));
  EXPECT_THAT(svg, ::testing::EndsWith("</svg>\n"));
  for (const char* text : {"a run", "step", "loss", "train", "held-out", "0", "20", "40", "3", "8"})
    EXPECT_THAT(svg, HasSubstr(">" + std::string(text) + "</text>"));
  EXPECT_EQ(count_of(svg, "<polyline"), 2);
  EXPECT_EQ(count_of(svg, "<circle"), 3);
  // Losses 3 to 9 from y = 348 up to 48, steps 0 to 40 from x = 72 to 700.
  EXPECT_THAT(svg, HasSubstr("<polyline points=\"72,48.0 "));
  EXPECT_THAT(svg, HasSubstr(" 700,348.0\"/>"));
  EXPECT_THAT(svg, HasSubstr("<polyline points=\"72,98.0 386,148.0 700,298.0\"/>"));
  // Nothing outside of the file but the name of the format.
  for (const char* part : {"href", "url(", "<script", "<style", "@import"})
    EXPECT_THAT(svg, Not(HasSubstr(part)));
  EXPECT_EQ(count_of(svg, "http"), 1);
}

TEST(SvgPlot, LeavesAGapWhereALossIsNotFinite) {
  Curve curve = falling();
  curve.train[20].loss = NAN;
  curve.train[39].loss = INFINITY;
  const std::string svg = svg_plot(curve, "a run");
  // Two lines and the last point, which stands alone; the held-out line and its three points.
  EXPECT_EQ(count_of(svg, "<polyline"), 3);
  EXPECT_EQ(count_of(svg, "<circle"), 4);
  EXPECT_THAT(svg, HasSubstr(">2 not finite</text>"));
  EXPECT_THAT(svg_plot({}, "a run"), HasSubstr(">no loss to plot</text>"));
}

TEST(SvgPlot, IsBoundedForAnyNumberOfSteps) {
  Curve curve;
  Random random(2);
  for (int step = 0; step < 100000; ++step)
    curve.train.push_back({step * 1.0, 3 + random.uniform()});
  EXPECT_LT(svg_plot(curve, "long").size(), 20000u);
}

TEST(SvgPlot, EscapesTheTitle) {
  const std::string svg = svg_plot(falling(), "<b>\"a\" & 'b'\n\x01");
  EXPECT_EQ(count_of(svg, "&lt;b&gt;&quot;a&quot; &amp; &#39;b&#39;  <"), 2);
}

class MetricsTest : public ::testing::Test {
 protected:
  MetricsTest() { path_ = (folder_ / "metrics.csv").string(); }

  void write(std::string_view text) const { std::ofstream(path_, std::ios::binary) << text; }
  std::string read() const {
    std::ostringstream text;
    text << std::ifstream(path_, std::ios::binary).rdbuf();
    return text.str();
  }
  std::vector<int64_t> steps() const {
    std::vector<int64_t> result;
    for (const Metrics& metrics : read_metrics(path_)) result.push_back(metrics.step);
    return result;
  }
  /// What reading and resuming both refuse, with the folder left out; the file stays as it was.
  std::string refused() const {
    const std::string before = read();
    const std::string reading = refusal([&] { read_metrics(path_); });
    EXPECT_EQ(refusal([&] { MetricsFile(path_, 100); }), reading);
    EXPECT_EQ(read(), before);
    return reading.starts_with(folder_.string()) ? reading.substr(folder_.string().size() + 1)
                                                 : reading;
  }

  const test::Folder home_;
  const fs::path folder_ = home_.path();
  std::string path_;
};

const std::string kHeader =
    "step,tokens,loss,held_out_loss,learning_rate,gradient_norm,tokens_per_second,seconds\n";

Metrics metrics_of(int64_t step) {
  return {step, 512 * (step + 1), 5.25 - static_cast<double>(step), {}, 3e-4, 1.5, 1e6, 0.125};
}

TEST_F(MetricsTest, WritesWhatItReads) {
  Metrics line = metrics_of(3);
  line.held_out_loss = 5.125f;
  line.loss = static_cast<float>(0.1);
  {
    MetricsFile file(path_, -1);
    EXPECT_EQ(read(), kHeader);
    file.append(metrics_of(0));
    // Seen at once.
    EXPECT_EQ(read(), kHeader + "0,512,5.25,,0.0003,1.5,1000000,0.125\n");
    file.append(line);
  }
  Metrics wild = {.step = INT64_MAX, .tokens = INT64_MAX};
  wild.loss = NAN, wild.held_out_loss = INFINITY, wild.gradient_norm = -INFINITY;
  wild.learning_rate = std::copysign(NAN, -1.0), wild.seconds = 1e-300;
  MetricsFile(path_, 3).append(wild);
  const auto lines = read_metrics(path_);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].tokens, 512);
  EXPECT_FALSE(lines[0].held_out_loss);
  EXPECT_EQ(static_cast<float>(lines[1].loss), 0.1f);
  EXPECT_EQ(lines[1].held_out_loss, 5.125);
  EXPECT_EQ(lines[1].learning_rate, 3e-4);
  EXPECT_EQ(lines[1].gradient_norm, 1.5);
  EXPECT_EQ(lines[1].tokens_per_second, 1e6);
  EXPECT_EQ(lines[1].seconds, 0.125);
  EXPECT_EQ(lines[2].step, INT64_MAX);
  EXPECT_TRUE(std::isnan(lines[2].loss) && std::isnan(lines[2].learning_rate));
  EXPECT_EQ(lines[2].held_out_loss, INFINITY);
  EXPECT_EQ(lines[2].gradient_norm, -INFINITY);
  EXPECT_EQ(lines[2].seconds, 1e-300);

  const Curve curve = curve_of(lines);
  ASSERT_EQ(curve.train.size(), 3u);
  ASSERT_EQ(curve.held_out.size(), 2u);
  EXPECT_EQ(curve.train[1].step, 3);
  EXPECT_EQ(curve.held_out[0].step, 3);
  EXPECT_EQ(curve.held_out[0].loss, 5.125);
}

TEST_F(MetricsTest, DropsStepsAfterTheResumedOne) {
  {
    MetricsFile file(path_, -1);
    for (int64_t step = 0; step < 7; ++step) file.append(metrics_of(step));
  }
  const std::string before = read();
  {
    MetricsFile file(path_, 4);
    EXPECT_THAT(steps(), ElementsAre(0, 1, 2, 3, 4));
    EXPECT_EQ(read(), before.substr(0, read().size()));
    EXPECT_EQ(refusal([&] { file.append(metrics_of(4)); }),
              path_ + ": expected a step above 4, got 4; fix: append every step once");
    file.append(metrics_of(5));
    file.append(metrics_of(9));
  }
  EXPECT_THAT(steps(), ElementsAre(0, 1, 2, 3, 4, 5, 9));
  MetricsFile(path_, 7).append(metrics_of(8));
  EXPECT_THAT(steps(), ElementsAre(0, 1, 2, 3, 4, 5, 8));
  const MetricsFile beyond(path_, 1000);
  EXPECT_THAT(steps(), ElementsAre(0, 1, 2, 3, 4, 5, 8));
  const MetricsFile fresh(path_, -1);
  EXPECT_EQ(read(), kHeader);
}

TEST_F(MetricsTest, DropsALineThatWasCutOff) {
  const std::string whole = kHeader + "0,512,5.25,,0.0003,1.5,1000000,0.125\n";
  const std::string last = "1,1024,4.25,4.5,0.0003,1.5,1000000,0.25";
  for (size_t length = 0; length <= last.size(); ++length) {
    write(whole + last.substr(0, length));
    EXPECT_THAT(steps(), ElementsAre(0));
    MetricsFile(path_, 1).append(metrics_of(1));
    EXPECT_THAT(steps(), ElementsAre(0, 1));
  }
  for (size_t length = 0; length < kHeader.size(); ++length) {
    write(kHeader.substr(0, length));
    EXPECT_THAT(steps(), ElementsAre());
    const MetricsFile fresh(path_, -1);
    EXPECT_EQ(read(), kHeader);
  }
}

TEST_F(MetricsTest, RefusesOtherFiles) {
  const std::string fix = "; fix: check the path, or move the file away: it is only a log";
  const std::string header = kHeader.substr(0, kHeader.size() - 1);
  for (const std::string first : {"a letter", "step,tokens", "step,loss\n", "\n"}) {
    if (header.starts_with(first)) continue;
    write(first);
    EXPECT_EQ(refused(), "metrics.csv:1: expected the header " + header + ", got '" +
                             first.substr(0, first.find('\n')) + "'" + fix);
  }
  for (const char* line :
       {"", "1", "1,2,3,4,5,6,7", "1,2,3,4,5,6,7,8,9", "-1,2,3,4,5,6,7,8", "1.5,2,3,4,5,6,7,8",
        "1,2,,4,5,6,7,8", "1,2,3,x,5,6,7,8", "1,2,3,4,5,6,7,8 ", "1,2,3,4,5,6,7,1e999"}) {
    write(kHeader + "0,512,5,,1,1,1,1\n" + line + "\n2,3,4,5,6,7,8,9\n");
    EXPECT_EQ(refused(), "metrics.csv:3: expected 8 fields, as the header says, got '" +
                             std::string(line) + "'" + fix);
  }
  write(kHeader + "5,512,5,,1,1,1,1\n5,512,5,,1,1,1,1\n");
  EXPECT_EQ(refused(), "metrics.csv:3: expected a step above 5, got 5" + fix);
  fs::remove(path_);
  EXPECT_EQ(refusal([&] { read_metrics(path_); }),
            path_ + ": expected a file that can be read, got No such file or directory" + fix);
  fs::create_directory(path_);
  EXPECT_EQ(refused(), "metrics.csv: expected a file that can be read, got Is a directory" + fix);
  EXPECT_THAT(refusal([&] { MetricsFile((folder_ / "no" / "a.csv").string(), -1); }),
              HasSubstr("expected a folder that files can be made in, got No such file"));
}

}  // namespace
}  // namespace coda::train

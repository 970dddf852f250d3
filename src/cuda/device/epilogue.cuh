// SPDX-License-Identifier: Apache-2.0
//
// The epilogue driver: walks a warpgroup's tile in chunks and runs the generated program on each.
//
// A warp owns rows 16 w .. 16 w + 15 of every 64-row block, alone: chunks need no synchronisation
// beyond the warp, except that column totals meet at the end of a tile. Order per chunk: wait for
// the inputs' slot; the program, strip by strip (loads, arithmetic, reductions, then stores in the
// order of the port table, of which a chunk's first waits until the output slot's previous bytes
// have been read); one proxy fence; lane 0 frees the input slot and issues the stores as one group.
// The fence orders both the reads of the input slot before its refill and the writes of the output
// slot before the copy engine.
//
// What a program sees is `Strip`: every value is a fragment float v[4 * blocks] as in matrix.cuh,
// of as many blocks as strip_blocks says for its width; element i is row(i), column col<width>(i).
#pragma once
#include "ports.cuh"
#include "reduce.cuh"

namespace coda::device {

template <class K>
struct Strip {
  static constexpr Config config = K::config;
  static constexpr Plan plan = Shape<K>::plan;
  static constexpr bool masks_columns = config.mask_cols && config.ragged_cols;
  // At least 1: the length of an array.
  static constexpr int count_of(Kind kind) {
    const int n = ports_of(K::ports, Shape<K>::ports, kind);
    return n ? n : 1;
  }

  const typename Shape<K>::Launch& p;
  u32 lane, warp;                                // warp of the eight consumer warps
  u32 load_at, store_at, vector_at, columns_at;  // shared memory: the chunk's slots
  int row_from, col_from;                        // of the chunk, in the matrix
  int tile_row, tile_col;                        // of the chunk, in the tile
  int strip;                                     // in the chunk
  bool first_block;                              // the first row block of the tile
  float states[count_of(Kind::keep_m)][2]
              [kStateWords];  // of the lane's two rows, as are the next two
  float folds[count_of(Kind::group_fold)][2][config.chunk_cols / 8];
  i64 col_values[count_of(Kind::col_vector)][2];
  // Tile inputs as stored, of this strip and of the next.
  u32 words[2][count_of(Kind::tile_in)][32];

  CODA_DEVICE explicit Strip(const typename Shape<K>::Launch& params) : p(params) {}

  template <int Values>
  static constexpr Width width_of = Values == 4 * strip_blocks(config.pair, Width::full)
                                        ? Width::full
                                    : Values < 4 * strip_blocks(config.pair, Width::full)
                                        ? Width::half
                                        : Width::twice;

  CODA_DEVICE int row(int i) const { return row_from + (lane >> 2) + (i & 2) * 4; }
  template <Width W = Width::full>
  CODA_DEVICE int col(int i) const {
    return widen(W, col_from) + block<W>(i / 4) * 8 + (lane & 3) * 2 + (i & 1);
  }
  CODA_DEVICE int rows() const { return p.geometry.m; }
  template <Width W = Width::full>
  CODA_DEVICE int columns() const {
    return widen(W, p.geometry.n);
  }

  // ---- inputs ----
  template <int P, int Values>
  CODA_DEVICE void load(float (&v)[Values]) const {
    using T = PortOf<K, P>;
    static_assert(T::port.kind == Kind::tile_in && width_of<Values> == T::port.width);
    fragment_values<T::port.type, Values / 4>(words[strip & 1][T::rank], v);
  }
  // One value per column, the same in both of the lane's rows.
  template <int P, class V, int Values>
  CODA_DEVICE void row_vector(V (&v)[Values]) const {
    using T = PortOf<K, P>;
    static_assert(T::port.kind == Kind::row_vector && width_of<Values> == T::port.width);
    constexpr int bytes = word_bytes(T::port.type);
    const u32 at =
        vector_at + T::offset + (widen(T::port.width, tile_col) + (lane & 3) * 2) * bytes;
#pragma unroll
    for (int b = 0; b < Values / 4; ++b) {
      const u32 from = at + block<T::port.width>(b) * 8 * bytes;
      if constexpr (bytes == 8) {
        from_bits(shared_load_i64(from), v[4 * b]);
        from_bits(shared_load_i64(from + 8), v[4 * b + 1]);
      } else {
        u32 left, right;
        shared_load2(from, left, right);
        from_bits(left, v[4 * b]);
        from_bits(right, v[4 * b + 1]);
      }
      v[4 * b + 2] = v[4 * b];
      v[4 * b + 3] = v[4 * b + 1];
    }
  }
  // One value per row.
  template <int P, class V, int Values>
  CODA_DEVICE void col_vector(V (&v)[Values]) const {
    static_assert(K::ports[P].kind == Kind::col_vector);
#pragma unroll
    for (int i = 0; i < Values; ++i) from_bits(col_values[PortOf<K, P>::rank][i >> 1 & 1], v[i]);
  }
  template <int P>
  CODA_DEVICE float scalar() const {
    return read_float<K::ports[P].type>(p.ports[P].data, 0);
  }
  template <int P>
  CODA_DEVICE float number() const {
    return p.ports[P].number;
  }
  // One value per row and group of columns.
  template <int P, int Values>
  CODA_DEVICE void group_in(float (&v)[Values]) const {
    for_groups<P, Values>([&](int i, const float* value, bool inside, bool) {
      v[i] = v[i + 1] = inside ? *value : 0.f;
    });
  }

  // ---- outputs ----
  template <int P, int Values>
  CODA_DEVICE void store(const float (&v)[Values]) const {
    using T = PortOf<K, P>;
    static_assert(T::port.kind == Kind::tile_out && width_of<Values> == T::port.width);
    if (T::rank == 0 && strip == 0) {
      if (lane == 0) tma_store_wait_read<config.store_stages - 1>();
      __syncwarp();
    }
    fragment_store<T::port.type, T::panel_row, Values / 4>(
        store_at + T::offset, lane, v, [&](int b) { return block<T::port.width>(b); });
  }
  // v holds the same value in all columns of a group.
  template <int P, int Values>
  CODA_DEVICE void group_out(const float (&v)[Values]) const {
    for_groups<P, Values>([&](int i, float* value, bool inside, bool first) {
      if (first && inside) *value = v[i];
    });
  }
  // Over the columns of each row.
  template <int P, int Values>
  CODA_DEVICE void keep_m(const float (&v)[Values]) {
    static_assert(K::ports[P].kind == Kind::keep_m);
    constexpr Width wide = width_of<Values>;
    const int left = columns<wide>() - widen(wide, col_from) - static_cast<int>(lane & 3) * 2;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      // Where all columns count, the lane's count is known, and the same in both rows.
      if constexpr (K::ports[P].reduce == Reduce::moments && !masks_columns)
        state<P>(r).w[0] =
            static_cast<float>(widen(wide, tile_col) / 4 + strip * (Values / 2));
      state<P>(r).template fold<Values / 2>(
          [&](int i) { return v[at_row(i, r)]; }, [&](int i) { return col<wide>(at_row(i, r)); },
          [&](int i) { return !masks_columns || block<wide>(i / 2) * 8 + i % 2 < left; });
    }
  }
  // Over the rows of each column.
  template <int P, int Values>
  CODA_DEVICE void keep_n(const float (&v)[Values]) {
    constexpr Port port = K::ports[P];
    static_assert(port.kind == Kind::keep_n && width_of<Values> == port.width);
    constexpr int wide = widen(port.width, plan.tile_cols), count = Values / 2;
    const bool top = !config.mask_rows || row(0) < rows();
    const bool bottom = !config.mask_rows || row(2) < rows();
    float x[count];
#pragma unroll
    for (int f = 0; f < count; ++f)
      x[f] = combine<port.reduce>(top ? v[at_row(f, 0)] : identity<port.reduce>(),
                                  bottom ? v[at_row(f, 1)] : identity<port.reduce>());
    u32 first;
    bool owner;
    butterfly<port.reduce>(x, lane, first, owner);
    const u32 totals = columns_at + PortOf<K, P>::offset +
                       (warp * wide + widen(port.width, tile_col) + (lane & 3) * 2) * 4;
    if (owner) {
#pragma unroll
      for (int i = 0; i < (count + 7) / 8; ++i) {
        const int flat = first + i;
        const u32 at = totals + (block<port.width>(flat / 2) * 8 + flat % 2) * 4;
        shared_store(at, first_block ? x[i] : combine<port.reduce>(shared_load(at), x[i]));
      }
    }
  }
  // Groups of columns of each row: folded in pass 0, the same for all columns of a group in pass 1.
  template <int P, int Values>
  CODA_DEVICE void fold(const float (&v)[Values]) {
    constexpr Port port = K::ports[P];
    static_assert(port.kind == Kind::group_fold && width_of<Values> == Width::full);
#pragma unroll
    for (int i = 0; i < Values; ++i) {
      float& total = folds[PortOf<K, P>::rank][i >> 1 & 1][block(i / 4) * 8 / port.group];
      const bool inside = !masks_columns || col(i) < columns();
      total = combine<port.reduce>(total, inside ? v[i] : identity<port.reduce>());
    }
  }
  template <int P, int Values>
  CODA_DEVICE void folded(float (&v)[Values]) const {
#pragma unroll
    for (int i = 0; i < Values; ++i)
      v[i] = folds[PortOf<K, P>::rank][i >> 1 & 1][block(i / 4) * 8 / K::ports[P].group];
  }

  // ---- the driver's side ----
  template <Width W = Width::full>
  CODA_DEVICE int block(int b) const {
    return strip_block(config.pair, W, strip, b);
  }
  static CODA_DEVICE void from_bits(i64 bits, float& x) { x = as_float(static_cast<u32>(bits)); }
  static CODA_DEVICE void from_bits(i64 bits, int& x) { x = static_cast<int>(bits); }
  static CODA_DEVICE void from_bits(i64 bits, i64& x) { x = bits; }
  // The i-th of a thread's values that lie in its row r.
  static CODA_DEVICE int at_row(int i, int r) { return i / 2 * 4 + 2 * r + i % 2; }

  // f(first of the two elements, address, inside the matrix, the block and lane that begin it) for
  // the groups of the strip's blocks.
  template <int P, int Values, class F>
  CODA_DEVICE void for_groups(F f) const {
    constexpr Port port = K::ports[P];
    static_assert(port.type == Type::f32 && width_of<Values> == Width::full);
    const PortArg& arg = p.ports[P];
#pragma unroll
    for (int i = 0; i < Values; i += 2) {
      const int m = row(i), n = col_from + block(i / 4) * 8;
      f(i, static_cast<float*>(arg.data) + m * arg.ld + n / port.group, m < rows() && n < columns(),
        n % port.group == 0 && (lane & 3) == 0);
    }
  }

  template <int P>
  CODA_DEVICE State<K::ports[P].reduce> state(int r) {
    return {states[PortOf<K, P>::rank][r]};
  }
  // What a strip reads from the chunk's input slot.
  CODA_DEVICE void fetch(int of) {
    for_ports<K, Kind::tile_in>([&](auto in) {
      constexpr Port port = in.port;
      fragment_fetch<port.type, in.panel_row, strip_blocks(config.pair, port.width)>(
          load_at + in.offset, lane, words[of & 1][in.rank],
          [&](int b) { return strip_block(config.pair, port.width, of, b); });
    });
  }
  // f(total) for every fold of a port.
  template <class T, class F>
  CODA_DEVICE void for_folds(T port, F f) {
#pragma unroll
    for (int i = 0; i < 2 * (config.chunk_cols / port.port.group); ++i)
      f(folds[port.rank][i & 1][i / 2]);
  }
  CODA_DEVICE void begin_folds() {
    for_ports<K, Kind::group_fold>([&](auto port) {
      constexpr Reduce reduce = port.port.reduce;
      for_folds(port, [&](float& x) { x = identity<reduce>(); });
    });
  }
  CODA_DEVICE void end_folds() {
    for_ports<K, Kind::group_fold>([&](auto port) {
      constexpr Reduce reduce = port.port.reduce;
      for_folds(port, [&](float& x) {
        x = combine<reduce>(x, __shfl_xor_sync(~0u, x, 1));
        x = combine<reduce>(x, __shfl_xor_sync(~0u, x, 2));
      });
    });
  }

  // Before the first and after the last chunk of a row block.
  CODA_DEVICE void begin_rows() {
    for_ports<K, Kind::keep_m>([&](auto port) {
      state<port.index>(0).reset();
      state<port.index>(1).reset();
    });
    for_ports<K, Kind::col_vector>([&](auto port) {
      constexpr int bytes = word_bytes(port.port.type);
      const u32 at = vector_at + port.offset + (tile_row + (lane >> 2)) * bytes;
#pragma unroll
      for (int r = 0; r < 2; ++r)
        if constexpr (bytes == 8)
          col_values[port.rank][r] = shared_load_i64(at + r * 8 * bytes);
        else
          col_values[port.rank][r] = __float_as_uint(shared_load(at + r * 8 * bytes));
    });
  }
  CODA_DEVICE void end_rows(int tile_n) {
    for_ports<K, Kind::keep_m>([&](auto port) {
      const PortArg& arg = p.ports[port.index];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const auto s = state<port.index>(r);
        s.quad();
        const int m = row(2 * r);
        // A cluster's last tile may lie outside the matrix.
        if ((lane & 3) == 0 && m < rows() && tile_n * plan.tile_cols < p.geometry.n) {
#pragma unroll
          for (int i = 0; i < s.words; ++i)
            static_cast<float*>(arg.data)[(static_cast<i64>(tile_n) * s.words + i) * arg.ld + m] =
                s.w[i];
        }
      }
    });
  }
  // Column totals of the warps that share the tile, in the order of the warps.
  CODA_DEVICE void end_tile(const Item& item) const {
    constexpr int warps = Shape<K>::pingpong ? 4 : 8;
    const u32 first = Shape<K>::pingpong ? warp & 4 : 0;
    const u32 id = 3 + first / 4;
    named_sync(id, warps * 32);
    for_ports<K, Kind::keep_n>([&](auto kept) {
      constexpr Port port = kept.port;
      constexpr int wide = widen(port.width, plan.tile_cols);
      const PortArg& arg = p.ports[kept.index];
      const u32 from = columns_at + kept.offset + first * wide * 4;
      for (int n = (warp - first) * 32 + lane; n < wide; n += warps * 32) {
        float total = shared_load(from + n * 4);
#pragma unroll
        for (int w = 1; w < warps; ++w)
          total = combine<port.reduce>(total, shared_load(from + (w * wide + n) * 4));
        const int at = item.tile_n * wide + n;
        if (at < columns<port.width>() && item.tile_m * config.tile_m < rows())
          static_cast<float*>(arg.data)[item.tile_m * arg.ld + at] = total;
      }
    });
    named_sync(id, warps * 32);
  }
};

// What a consumer warp keeps between tiles.
template <class K>
struct Epilogue {
  static constexpr Config config = K::config;
  static constexpr Plan plan = Shape<K>::plan;

  Cursor<config.load_stages> load;
  Cursor<config.store_stages> store;

  CODA_DEVICE void run(const typename Shape<K>::Launch& p, u32 smem, u32 this_warp,
                       const Item& item, u32 turn, Accumulators<K>& acc) {
    // Addresses made of lane and warp are not to be kept in registers through the mainloop, nor
    // from one chunk for the next.
    const u32 warp = opaque(this_warp);
    const Barriers<K> barriers(smem);
    Strip<K> chunk(p);
    chunk.warp = warp;
    chunk.vector_at = smem + plan.vectors_at + (turn & 1) * plan.vector_slot;
    chunk.columns_at = smem + plan.columns_at;
    const u32 loads = smem + plan.loads_at + warp * (config.load_stages * plan.load_slot);
    const u32 stores = smem + plan.stores_at + warp * (config.store_stages * plan.store_slot);
    if constexpr (plan.has_vectors) barrier_wait(barriers.vector_full(turn & 1), turn >> 1 & 1);
#pragma unroll
    for (int block = 0; block < plan.row_blocks; ++block) {
      chunk.lane = lane_id_opaque();
      chunk.first_block = block == 0;
      chunk.tile_row =
          (Shape<K>::pingpong ? 0 : warp / 4 * plan.group_rows) + block * 64 + warp % 4 * 16;
      chunk.row_from = item.tile_m * config.tile_m + chunk.tile_row;
      chunk.begin_rows();
#pragma unroll 1
      for (int turn_of = 0; turn_of < plan.chunks; turn_of += kTurn) {
#pragma unroll
        for (int part = 0; part < kTurn; ++part) {
          chunk.tile_col = (turn_of + part) * config.chunk_cols;
          chunk.col_from = item.tile_n * plan.tile_cols + chunk.tile_col;
          chunk.load_at = loads + load.slot * plan.load_slot;
          chunk.store_at = stores + store.slot * plan.store_slot;
          delay<config.delays>(8 + warp, turn * 16 + block * 4 + turn_of + part);
          if constexpr (plan.has_loads)
            barrier_wait(barriers.load_full(warp, load.slot), load.phase);
          // Of the last tile, chunks may lie outside the matrix as a whole; elements need no mask
          // then.
          const bool outside =
              config.mask_cols && !config.ragged_cols && chunk.col_from >= p.geometry.n;
          if (!outside) {
            chunk.begin_folds();
            apply<0>(chunk, acc, block, part);
            if constexpr (config.passes == 2) {
              chunk.end_folds();
              apply<1>(chunk, acc, block, part);
            }
          }
          finish(p, barriers, chunk, item, warp);
        }
        bring_forward(acc, block);
      }
      chunk.end_rows(item.tile_n);
    }
    if constexpr (plan.has_columns) chunk.end_tile(item);
    if constexpr (plan.has_vectors) {
      __syncwarp();
      if (chunk.lane == 0) barrier_arrive(barriers.vector_empty(turn & 1));
    }
  }

  // Chunks of one turn of the loop. Registers have no index at run time, so after each turn the
  // accumulators that are left come to the front. Written out for all chunks instead, a long program
  // does not stay in the instruction cache, and takes twice the time; turns of 64 columns move less.
  static constexpr int kTurn = config.chunk_cols == 32 && plan.chunks % 2 == 0 ? 2 : 1;
  static CODA_DEVICE void bring_forward(Accumulators<K>& acc, int block) {
    constexpr int step = kTurn * config.chunk_cols / 2;
#pragma unroll
    for (int n = 0; n < config.accumulators; ++n)
#pragma unroll
      for (int i = 0; i + step < plan.tile_cols / 2; ++i)
        acc[n][block][i] = acc[n][block][i + step];
  }

  // The program on every strip of a chunk, the `part`th of its turn.
  template <int Pass>
  CODA_DEVICE void apply(Strip<K>& chunk, const Accumulators<K>& acc, int block, int part) const {
    constexpr int blocks = strip_blocks(config.pair, Width::full);
    chunk.fetch(0);
#pragma unroll
    for (int s = 0; s < strips(config); ++s) {
      chunk.strip = s;
      // No load passes a store, so the next strip's come before this one's stores: its arithmetic
      // then fills the waits of this one's.
      if (s + 1 < strips(config)) chunk.fetch(s + 1);
      float v[config.accumulators][4 * blocks];
#pragma unroll
      for (int n = 0; n < config.accumulators; ++n)
#pragma unroll
        for (int i = 0; i < 4 * blocks; ++i) {
          const int at =
              part * (config.chunk_cols / 8) + strip_block(config.pair, Width::full, s, i / 4);
          v[n][i] = acc[n][block][at * 4 + i % 4];
        }
      K::template apply<Pass>(chunk, v);
    }
  }

  CODA_DEVICE void finish(const typename Shape<K>::Launch& p, const Barriers<K>& barriers,
                          const Strip<K>& chunk, const Item& item, u32 warp) {
    fence_async();
    __syncwarp();
    if (chunk.lane == 0) {
      if constexpr (plan.has_loads) barrier_arrive(barriers.load_empty(warp, load.slot));
      const int row = chunk.row_from + (config.split_k ? item.split * p.geometry.split_rows : 0);
      for_ports<K, Kind::tile_out>([&](auto port) {
        port.for_panels(
            p, row, chunk.col_from, chunk.store_at,
            [&](const TensorMap* map, int x, int y, u32 from) { tma_store(map, x, y, from); });
      });
      if constexpr (plan.has_stores) tma_store_commit();
    }
    if constexpr (plan.has_loads) load.advance();
    if constexpr (plan.has_stores) store.advance();
  }
};

}  // namespace coda::device

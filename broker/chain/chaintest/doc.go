// Package chaintest helps to test chains: a deterministic store in memory with a clock that the
// test moves (Memory), a store that loses chosen calls (Lossy), chains from one-line scripts
// (Script), and the suite for every chain.Store (Suite).
package chaintest

// Package chaintest helps to test chains: a store in memory that is
// deterministic and whose clock the test moves, one that loses what it is told
// to, and the suite that holds every chain.Store to the same behaviour.
package chaintest

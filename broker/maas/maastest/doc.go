// Package maastest has the broker's own records in memory, for tests of the chains
// that package maas makes: Book is both maas.Records and maas.Nodes, and lets
// agents enrol from what their machines were deployed with.
package maastest

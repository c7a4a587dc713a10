// Package records joins the lists of package allocation to the broker's own parts: Records implements
// allocation.Records over the store and the task queue, and Watch begins the runs.
//
// A simulation plays projects, nodes full of faults and dying brokers over the real store, the real queue
// and the real turnovers, and holds the rules after each step (sim_test.go; make sim plays many seeds).
package records

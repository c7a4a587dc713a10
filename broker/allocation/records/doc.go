// Package records is allocation.Records over the broker's own parts, and the watch that begins the
// runs of allocations.
package records

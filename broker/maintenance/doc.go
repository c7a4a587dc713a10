// Package maintenance is about work of people on nodes: a maintenance is planned or opened, and closed.
//
// # Model
//
// A maintenance is a record beside the node's status (broker.Maintenance). While it is open, broker.Handout has a
// reason against handing out the node, so that no placement takes the node and its availability is maintenance.
// The status of the node does not change: heartbeats, drains and turnovers go on. The tenant who is there stays,
// or the platform releases the allocation.
//
// # By date
//
// The package records looks from time to time at what is due. broker.Maintenance.Due decides by the dates alone, so
// that a broker that was down for days does what is right now: it begins a maintenance whose time has come, and
// misses one whose whole time has passed. Each step is one transaction with its event and audit row. A tenant
// that has to leave is released by a look as well, so that no crash between two writes loses the release.
//
// # Closing
//
// A maintenance is closed when the node passes the checks of its category (broker.Maintenance.ChecksOf). The agent was
// heard, and no part is missing or unexpected. After work on parts that hold data, a turnover has cleaned and certified
// the node since. It is the turnover that every node gets; this package has none of its own. Until all checks are passed
// the maintenance stays open.
//
// # Overlap
//
// A node is in one maintenance at a time; an index of the store holds that. A new maintenance that overlaps another one
// is refused. A planned one that finds its node in another one waits, and says so.
package maintenance

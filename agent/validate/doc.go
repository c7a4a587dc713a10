// Package validate looks at a whole machine and says whether a tenant left anything.
//
// Clean carries out node.validate_clean. A look turns one part of the machine into items with stable
// names. Taking a baseline keeps the names; judging reports the items that the baseline does not
// have. validationChecks lists the looks in their order.
//
// # Invariants
//
//   - Unknown is never clean: a look that fails, or a row that does not come to rest, makes the
//     verdict inconclusive and says why.
//   - Items of an unknown owner count from any look; items of a known owner must stay for
//     host.Host.Settle to count.
//   - Identity is what a tenant cannot choose: device and inode, pid and start time, uid.
//   - A finding names paths, uids, counts and digests. Arguments, environments and contents of
//     files are never reported.
//
// The package changes nothing on the machine.
package validate

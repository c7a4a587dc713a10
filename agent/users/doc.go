// Package users makes and removes the accounts of allocations on a node.
//
// Provision carries out allocation.provision_user, Revoke allocation.revoke_user. Both are run by
// the handlers of package tasks. Steps is the order of a revoke.
//
// # Invariants
//
//   - An account is recorded in the agent's ledger before the system has it, and the record is
//     deleted only after nothing of the account is left. A crash in between continues there.
//   - A uid is given once and never again. No uid is given under which a process runs.
//   - A revoke kills by uid in the kernel, not from a list of processes alone, and ends with an
//     error while anything of the user runs or comes back.
//   - Files in reach of the user are opened without following links.
//
// The package removes what belongs to the user's uids. What a user with sudo left under other uids
// is found by package validate.
package users

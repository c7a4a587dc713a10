// Package operators says who calls the operator API: bearer tokens, one per
// person or machine, with a role and perhaps a set of sites.
//
// # Rules
//
//   - A token is 256 random bits behind "hso_". The broker keeps its hash; the
//     secret is shown once, when it is made.
//   - Every request looks its token up. Nothing is cached, so a token that was
//     revoked, on whichever replica, opens nothing more; a hint ends the
//     requests that are still being answered, a waiting one for instance.
//   - Each token has a rate of its own. So has each address that shows tokens
//     which are none; who shares one with a guesser does not pay for it.
//   - The name of a token is the actor of its audit rows, and is never used again.
package operators

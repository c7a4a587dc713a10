// Package artifactsource makes the credentials with which a node pulls the artifacts of an operation
// from buckets and repositories of files. The main type is Mints.
//
// # Model
//
// An operator stores accounts: broker.SourceCredential, with a secret among the broker's secrets. A
// step credential.mint of a signed plan names a type and a scope. Mints finds the account for the
// scope, and makes a taskcatalog.BlobCredential for exactly the files that steps of the same plan pull
// with it: a signed URL each for a bucket, a token for a repository.
//
// # Rules
//
//   - The plan is read from the envelope that the broker itself signed, never from a node's request.
//   - A signed URL permits one GET of one object, and ends after minutes.
//   - An account serves its source alone, and its secret goes to no node unless the source knows
//     nothing but tokens.
//   - Record and secret belong to the same setting, or nothing is minted.
//
// The package asks no service: the signature of a URL is arithmetic.
package artifactsource

// Package readme runs the commands of README.md and docs/tutorial/walk.md exactly as written. A
// wrong page fails the tests. The package also draws the README's picture of a certificate
// (docs/certificate.svg) from the certificate that the README verifies.
package readme

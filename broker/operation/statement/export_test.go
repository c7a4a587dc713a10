package statement

import "github.com/hostler/hostler/pki"

// SignedAs signs a statement as it is, without Issue's checks.
func SignedAs(o Operation, signer pki.Signer) ([]byte, error) {
	payload, err := tidyOperation(o).encode()
	if err != nil {
		return nil, err
	}
	return pki.SignStatement(payload, signer)
}

// ReceiptSignedAs signs a receipt as it is, without IssueReceipt's checks.
func ReceiptSignedAs(r Receipt, signer pki.Signer) ([]byte, error) {
	payload, err := tidyReceipt(r).encode()
	if err != nil {
		return nil, err
	}
	return pki.SignStatement(payload, signer)
}

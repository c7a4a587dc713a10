package taskcatalog

import "slices"

// EraseMethod is what was done to a disk, never what was asked for. The names are
// those of evidence and of certificates.
type EraseMethod string

// The methods.
const (
	MethodNone              EraseMethod = "none"
	MethodOverwrite         EraseMethod = "overwrite"
	MethodFileDeletion      EraseMethod = "file_deletion"
	MethodTrim              EraseMethod = "trim"
	MethodMkfs              EraseMethod = "mkfs"
	MethodMAASQuickErase    EraseMethod = "maas_quick_erase"
	MethodMAASSecureErase   EraseMethod = "maas_secure_erase"
	MethodATASecureErase    EraseMethod = "ata_secure_erase"
	MethodATAEnhancedErase  EraseMethod = "ata_enhanced_secure_erase"
	MethodNVMeFormatErase   EraseMethod = "nvme_format_user_data_erase"
	MethodNVMeFormatCrypto  EraseMethod = "nvme_format_crypto_erase"
	MethodNVMeSanitizeBlock EraseMethod = "nvme_sanitize_block_erase"
	MethodNVMeSanitizeCrypt EraseMethod = "nvme_sanitize_crypto_erase"
	MethodNVMeSanitizeWrite EraseMethod = "nvme_sanitize_overwrite"
	MethodRemoved           EraseMethod = "removed"   // a person's word
	MethodDestroyed         EraseMethod = "destroyed" // a person's word
)

// EraseGrade is what a method is worth, in the words of NIST SP 800-88: clear
// keeps data from whoever uses the device as a device, purge from a laboratory.
type EraseGrade string

// The grades, from the least to the most.
const (
	GradeNone    EraseGrade = "none"
	GradeClear   EraseGrade = "clear"
	GradePurge   EraseGrade = "purge"
	GradeDestroy EraseGrade = "destroy"
)

var eraseGrades = []EraseGrade{GradeNone, GradeClear, GradePurge, GradeDestroy}

// eraseWorth is the table of methods: the grade, and the rank among what an erase
// task can do. What leaves blocks behind that can be read again has no grade:
// deletion, trim, a new file system, MAAS's quick erase.
var eraseWorth = map[EraseMethod]struct {
	grade EraseGrade
	rank  int
}{
	MethodNone:              {GradeNone, 0},
	MethodRemoved:           {GradeNone, 0},
	MethodFileDeletion:      {GradeNone, 1},
	MethodTrim:              {GradeNone, 1},
	MethodMkfs:              {GradeNone, 1},
	MethodMAASQuickErase:    {GradeNone, 1},
	MethodMAASSecureErase:   {GradeClear, 2}, // the drive's own erase, or zeros over all of it
	MethodOverwrite:         {GradeClear, 2}, // what the drive has set aside stays
	MethodATASecureErase:    {GradeClear, 3},
	MethodNVMeFormatErase:   {GradeClear, 3},
	MethodNVMeFormatCrypto:  {GradePurge, 4},
	MethodATAEnhancedErase:  {GradePurge, 5},
	MethodNVMeSanitizeBlock: {GradePurge, 5},
	MethodNVMeSanitizeCrypt: {GradePurge, 5},
	MethodNVMeSanitizeWrite: {GradePurge, 5},
	MethodDestroyed:         {GradeDestroy, 6},
}

// Grade returns what the method is worth; none where it is not known.
func (m EraseMethod) Grade() EraseGrade {
	if w, ok := eraseWorth[m]; ok {
		return w.grade
	}
	return GradeNone
}

// Weaker reports whether the method leaves more behind than another.
func (m EraseMethod) Weaker(than EraseMethod) bool { return eraseWorth[m].rank < eraseWorth[than].rank }

// Below reports whether the grade is less than another. What is no grade is below
// every other.
func (g EraseGrade) Below(least EraseGrade) bool {
	return slices.Index(eraseGrades, g) < slices.Index(eraseGrades, least)
}

// Valid reports whether g is one of the grades.
func (g EraseGrade) Valid() bool { return slices.Contains(eraseGrades, g) }

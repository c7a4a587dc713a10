package taskcatalog

import "slices"

// EraseMethod is the method that erased a disk, never merely the requested method. The names are
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
	MethodRemoved           EraseMethod = "removed"   // as a person stated
	MethodDestroyed         EraseMethod = "destroyed" // as a person stated
)

// EraseGrade is the strength of a method in the terms of NIST SP 800-88. Clear protects data from
// reads through the device's interface; purge protects data from a laboratory.
type EraseGrade string

// The grades, from the weakest to the strongest.
const (
	GradeNone    EraseGrade = "none"
	GradeClear   EraseGrade = "clear"
	GradePurge   EraseGrade = "purge"
	GradeDestroy EraseGrade = "destroy"
)

var eraseGrades = []EraseGrade{GradeNone, GradeClear, GradePurge, GradeDestroy}

// eraseWorth is the table of methods: the grade, and the rank among the methods of an erase task.
// Methods that leave readable blocks behind have grade none: deletion, trim, a new file system,
// MAAS's quick erase.
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
	MethodMAASSecureErase:   {GradeClear, 2}, // the drive's own erase, or zeros over the whole drive
	MethodOverwrite:         {GradeClear, 2}, // blocks that the drive has set aside remain
	MethodATASecureErase:    {GradeClear, 3},
	MethodNVMeFormatErase:   {GradeClear, 3},
	MethodNVMeFormatCrypto:  {GradePurge, 4},
	MethodATAEnhancedErase:  {GradePurge, 5},
	MethodNVMeSanitizeBlock: {GradePurge, 5},
	MethodNVMeSanitizeCrypt: {GradePurge, 5},
	MethodNVMeSanitizeWrite: {GradePurge, 5},
	MethodDestroyed:         {GradeDestroy, 6},
}

// Grade returns the grade of the method, and GradeNone for an unknown method.
func (m EraseMethod) Grade() EraseGrade {
	if w, ok := eraseWorth[m]; ok {
		return w.grade
	}
	return GradeNone
}

// Weaker reports whether the method leaves more behind than the method than.
func (m EraseMethod) Weaker(than EraseMethod) bool { return eraseWorth[m].rank < eraseWorth[than].rank }

// Below reports whether the grade is lower than least. An invalid grade is below every grade.
func (g EraseGrade) Below(least EraseGrade) bool {
	return slices.Index(eraseGrades, g) < slices.Index(eraseGrades, least)
}

// Valid reports whether g is one of the grades.
func (g EraseGrade) Valid() bool { return slices.Contains(eraseGrades, g) }

// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * unfolds.c - functions with short names that refer back to their own parts, and would be terabytes long as people write them: of C++, of C++ with a pack, of
 * Rust and of D. Each keeps one block, of 1000, 1001 .. bytes. Status 7.
 */
#include <stdlib.h>

static void *volatile kept[4];

__attribute__((noinline)) void unfolds_0(size_t size) __asm__("_Z1f1AI1BS0_ES_IS1_S1_ES_IS2_S2_ES_IS3_S3_ES_IS4_S4_ES_IS5_S5_ES_IS6_S6_ES_IS7_S7_ES_IS8_S8_ES_IS9_S9_ES_ISA_SA_ES_ISB_SB_ES_ISC_SC_ES_ISD_S"
	"D_ES_ISE_SE_ES_ISF_SF_ES_ISG_SG_ES_ISH_SH_ES_ISI_SI_ES_ISJ_SJ_ES_ISK_SK_ES_ISL_SL_ES_ISM_SM_ES_ISN_SN_ES_ISO_SO_ES_ISP_SP_ES_ISQ_SQ_ES_ISR_S"
	"R_ES_ISS_SS_ES_IST_ST_ES_ISU_SU_ES_ISV_SV_ES_ISW_SW_ES_ISX_SX_ES_ISY_SY_ES_ISZ_SZ_ES_IS10_S10_ES_IS11_S11_ES_IS12_S12_ES_IS13_S13_ES_IS14_S1"
	"4_E");
void unfolds_0(size_t size) { kept[0] = malloc(size); }

__attribute__((noinline)) void unfolds_1(size_t size) __asm__("_Z1fIiEPFv1AI1BS1_ES0_IS2_S2_ES0_IS3_S3_ES0_IS4_S4_ES0_IS5_S5_ES0_IS6_S6_ES0_IS7_S7_ES0_IS8_S8_ES0_IS9_S9_ES0_ISA_SA_ES0_ISB_SB_ES0_ISC_SC_E"
	"S0_ISD_SD_ES0_ISE_SE_ES0_ISF_SF_ES0_ISG_SG_ES0_ISH_SH_ES0_ISI_SI_ES0_ISJ_SJ_ES0_ISK_SK_ES0_ISL_SL_ES0_ISM_SM_ES0_ISN_SN_ES0_ISO_SO_ES0_ISP_S"
	"P_ES0_ISQ_SQ_ES0_ISR_SR_ES0_ISS_SS_ES0_IST_ST_ES0_ISU_SU_ES0_ISV_SV_ES0_ISW_SW_ES0_ISX_SX_ES0_ISY_SY_ES0_ISZ_SZ_ES0_IS10_S10_ES0_IS11_S11_ES"
	"0_IS12_S12_ES0_IS13_S13_ES0_IS14_S14_ES0_IS15_S15_EEDpS16_");
void unfolds_1(size_t size) { kept[1] = malloc(size); }

__attribute__((noinline)) void unfolds_2(size_t size) __asm__("_RINvC1a1fTuuETB7_B7_ETBb_Bb_ETBj_Bj_ETBr_Br_ETBz_Bz_ETBH_BH_ETBP_BP_ETBX_BX_ETB15_B15_ETB1d_B1d_ETB1n_B1n_ETB1x_B1x_ETB1H_B1H_ETB1R_B1R_ETB"
	"21_B21_ETB2b_B2b_ETB2l_B2l_ETB2v_B2v_ETB2F_B2F_ETB2P_B2P_ETB2Z_B2Z_ETB39_B39_ETB3j_B3j_ETB3t_B3t_ETB3D_B3D_ETB3N_B3N_ETB3X_B3X_ETB47_B47_ETB"
	"4h_B4h_ETB4r_B4r_ETB4B_B4B_ETB4L_B4L_ETB4V_B4V_ETB55_B55_ETB5f_B5f_ETB5p_B5p_ETB5z_B5z_ETB5J_B5J_ETB5T_B5T_ETB63_B63_EE");
void unfolds_2(size_t size) { kept[2] = malloc(size); }

__attribute__((noinline)) void unfolds_3(size_t size) __asm__("_D1a1fFHiHiiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQg"
	"QiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiHQgQiZv");
void unfolds_3(size_t size) { kept[3] = malloc(size); }

int main(void)
{
	unfolds_0(1000);
	unfolds_1(1001);
	unfolds_2(1002);
	unfolds_3(1003);
	return 7;
}
